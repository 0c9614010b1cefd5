"""Command `lineage index` of one repository: check of the options, run lock, and run of the pipeline."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipeline.encoders import providers
from pipeline.encoders.base import Encoder, create_bundled_encoder
from pipeline.git import commit_graph
from pipeline.git.repository import Repository, open_repository
from pipeline.options import (
    ALL_BRANCHES,
    EmbedCacheMode,
    EmbedProvider,
    EncoderName,
    Resources,
    VectorIndex,
)
from pipeline.profile import Profile, record_times
from pipeline.workers import configure_malloc, count_usable_cpus
from serve import config, process
from serve.cli import index_output
from serve.cli.entry import ALREADY_QUEUED_MESSAGE
from serve.cli.terminal import print_text
from serve.errors import BadRequest
from serve.repositories import locate_index
from stores import locks
from stores.index_location import IndexLocation
from stores.locks import RunInProgress

if TYPE_CHECKING:
    from pipeline.run import RunOptions, RunSummary
    from stores.compatibility import RecordedVersions

logger = logging.getLogger(__name__)

# Encoder threads per CPU. A share below 1 also reduces the default commit batch.
_RESOURCE_SHARES: Final = {Resources.CONSERVATIVE: 0.5, Resources.AUTO: 1.0, Resources.AGGRESSIVE: 2.0}


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """Options of `lineage index` from the command line or the wizard.

    None: the setting recorded in the index; if there is none, a default. `scheduler`: address of a Dask scheduler; None
    to embed on this machine.
    """

    incremental: bool = False
    force: bool = False
    rebuild: bool = False
    yes: bool = False
    commit_batch: int | None = None
    embed_batch: int | None = None
    threads: int | None = None
    workers: int | None = None
    resources: Resources = Resources.AUTO
    embed_provider: EmbedProvider = EmbedProvider.AUTO
    embed_cache: EmbedCacheMode | None = None
    encoder: EncoderName | None = None
    skip_vectors: bool = False
    vector_index: VectorIndex | None = None
    scheduler: str | None = None
    branch_patterns: tuple[str, ...] = ()
    head_only: bool = False
    show_progress: bool = True
    profile: bool = False


def run_index_command(path: Path, options: IndexOptions) -> None:
    """Bring the index of the repository at `path` up to HEAD and print a summary."""
    check_options(options)
    settings = config.load_settings()
    process.configure_log(settings.log_level)
    result = index_repository(path, options, settings.home)
    if result.summary is None:
        print_text(result.message)
        log_warnings(result)
        if result.versions is not None and options.profile:
            print_text(Profile().to_json_line())
        return
    index_output.print_summary(
        result.summary,
        profile_details=result.profile_details if options.profile else None,
        is_partial_clone=result.is_partial_clone,
    )


@dataclass(frozen=True, slots=True)
class IndexResult:
    """Result of `index_repository`.

    `summary`: None if there was nothing to do; then `message` says why. `versions`: component versions recorded in the
    index, if it was up to date, else None. `unreadable_refs`: branches and tags to index that cannot be read, also only
    if it was up to date. `profile_details`: settings of the run to add to its profile.
    """

    summary: RunSummary | None = None
    profile_details: Mapping[str, int | str] = field(default_factory=dict)
    is_partial_clone: bool = False
    message: str = ""
    versions: RecordedVersions | None = None
    unreadable_refs: Sequence[str] = ()


@dataclass(slots=True)
class SharedEncoders:
    """Loaded encoders, which the runs of several repositories use one after the other.

    `encoders`: pairs of an encoder and the provider that runs it, by encoder name and requested provider.
    `repository_name`: name of the repository of the current run, for the progress bar.
    """

    encoders: dict[tuple[EncoderName, str], tuple[Encoder, str]] = field(default_factory=dict)
    repository_name: str = ""


def index_repository(
    path: Path, options: IndexOptions, home: Path, shared: SharedEncoders | None = None
) -> IndexResult:
    """Bring the index of the repository at `path` up to HEAD. `shared`: loaded encoders, to which the run may add."""
    repository = open_repository(path)
    if repository.read_head() is None:
        raise repository.build_head_error()
    location = locate_index(home, repository)
    _check_branch_patterns(repository, options)
    if options.incremental and not options.force:
        return _index_incrementally(path, repository.git_dir, location, options, shared)
    with locks.acquire_run_lock(location):
        return _run_index(repository, location, options, shared)


def _index_incrementally(
    path: Path, git_dir: Path, location: IndexLocation, options: IndexOptions, shared: SharedEncoders | None
) -> IndexResult:
    """Wait for a running index run, then index the new commits. Return at once if another run is queued already."""
    with locks.wait_for_run_lock(location, git_dir, _log_waiting) as run_lock:
        if run_lock is None:
            return IndexResult(message=ALREADY_QUEUED_MESSAGE)
        repository = open_repository(path)  # opened again, because HEAD may have moved meanwhile
        if (result := _describe_if_complete(repository, location, options)) is not None:
            if options.vector_index is not None:
                _refresh_vector_index(location, options.vector_index)
            return result
        run_lock.record_process()
        return _run_index(repository, location, options, shared)


def _check_branch_patterns(repository: Repository, options: IndexOptions) -> None:
    """Raise BadRequest for an invalid pattern, and for a pattern that matches no branch and no tag of a commit."""
    from pipeline.git import ranges
    from pipeline.git.attributes import MAX_PATTERN_CHARACTERS

    git = commit_graph.create_git_program(repository)
    for pattern in options.branch_patterns:
        if pattern in ALL_BRANCHES:
            continue  # they may match nothing: a repository without a remote has no remote-tracking branches
        if not pattern.strip():
            raise BadRequest(
                "A branch pattern is empty.", hint="Give a name, or a pattern such as `topic/*`."
            )
        if len(pattern) > MAX_PATTERN_CHARACTERS:
            raise BadRequest(
                f"A branch pattern has {len(pattern):,} characters. At most {MAX_PATTERN_CHARACTERS:,} are possible."
            )
        if not ranges.list_ref_commits(repository, git, [pattern]):
            if names := ranges.list_unreadable_refs(repository, git, [pattern]):
                found = index_output.join_first(names)
                raise BadRequest(f"The commit of {found} is missing or damaged.", hint="Run `git fsck`.")
            if ranges.list_ref_objects(git, [pattern]):
                raise BadRequest(
                    f"{pattern!r:.200} matches only references to objects that are no commits of this clone.",
                    hint="Name a branch, or a tag of a commit: `git for-each-ref` lists all with their types.",
                )
            suggestion = ranges.suggest_references(repository, pattern)
            raise BadRequest(
                f"No branch or tag matches {pattern!r:.200}.",
                hint=f"{suggestion} `git for-each-ref` lists them all.".lstrip(),
            )


def log_warnings(result: IndexResult) -> None:
    """Log warnings about an index that was up to date: unreadable branches, and other versions of components."""
    index_output.log_unreadable_refs(result.unreadable_refs)
    if result.versions is not None:
        from serve.index_status import check_recorded_versions, describe_compatibility

        if sentence := describe_compatibility(check_recorded_versions(result.versions)):
            logger.warning("%s", sentence)


def _log_waiting(run_in_progress: RunInProgress) -> None:
    logger.info("%s Waiting for it.", run_in_progress.message)


def check_options(options: IndexOptions) -> None:
    """Raise BadRequest for options that exclude each other, and for an option that needs a missing one."""
    if options.rebuild and (options.incremental or options.force):
        conflicting_flag = "--incremental" if options.incremental else "--force"
        raise BadRequest(
            f"--rebuild conflicts with {conflicting_flag}.",
            hint="--rebuild always indexes the whole history. Use only --rebuild and --yes.",
        )
    if options.rebuild and not options.yes:
        raise BadRequest(
            "--rebuild deletes the whole index of this repository.",
            hint="Confirm with `lineage index --rebuild --yes`.",
        )
    if options.scheduler and options.embed_provider not in {EmbedProvider.AUTO, EmbedProvider.CPU}:
        raise BadRequest(
            f"--scheduler conflicts with --embed-provider {options.embed_provider}.",
            hint="The workers of a cluster embed on their CPUs. Omit --embed-provider.",
        )
    if options.head_only and options.branch_patterns:
        raise BadRequest("--head-only conflicts with --branch and --all-branches.", hint="Use one of them.")
    if options.yes and not options.rebuild:
        raise BadRequest("--yes confirms --rebuild, which is missing.", hint="Omit --yes, or add --rebuild.")


def _describe_if_complete(
    repository: Repository, location: IndexLocation, options: IndexOptions
) -> IndexResult | None:
    """Return the result for an index that is complete for HEAD; None for any other index.

    An index is complete if a run of this HEAD has finished with all vectors, the options do not change the encoder, the
    mode of the embedding cache or the branch patterns, no matching branch or tag has moved, and no unreadable commit
    has become readable.
    """
    from pipeline.git import ranges
    from stores import compatibility, database, history

    head = repository.read_head()
    try:
        with database.open_for_reading(location) as connection:
            summary = history.load_index_summary(connection)
            versions = compatibility.load_recorded_versions(connection)
            unreadable_commits = history.load_unreadable_commits(connection)
            patterns = history.load_branch_patterns(connection)
            indexed_tips = history.load_branch_tips(connection)
    except database.NotIndexed:
        return None
    # `head_commit` differs if a run of another HEAD was killed after it had written a part of that HEAD's snapshot.
    is_complete = summary is not None and summary.completed_commit == summary.head_commit == head
    removes_patterns = options.head_only and bool(patterns)
    adds_patterns = not set(options.branch_patterns) <= set(patterns)
    changes_cache = options.embed_cache not in (None, versions.embed_cache or EmbedCacheMode.OFF)
    if not is_complete or removes_patterns or adds_patterns or changes_cache:
        return None
    if options.encoder is not None:
        from pipeline.component_versions import get_encoder_name

        if get_encoder_name(versions.embedding_model) is not options.encoder:
            return None
    git = commit_graph.create_git_program(repository)
    has_new_tip = not indexed_tips.issuperset(ranges.list_ref_commits(repository, git, patterns))
    if has_new_tip or any(repository.can_diff(commit.commit_sha) for commit in unreadable_commits):
        return None
    unreadable_refs = ranges.list_unreadable_refs(repository, git, patterns)
    message = f"index up-to-date at {head}"
    return IndexResult(message=message, versions=versions, unreadable_refs=unreadable_refs)


def _run_index(
    repository: Repository, location: IndexLocation, options: IndexOptions, shared: SharedEncoders | None
) -> IndexResult:
    encoder_name = options.encoder or _find_encoder_name(location)
    # The index's setting is read here, before --rebuild deletes the file.
    vector_index = options.vector_index or (VectorIndex.HNSW if location.hnsw.exists() else VectorIndex.NONE)
    if options.rebuild:
        _warn_about_lost_options(location, encoder_name, options)
    # Selected here, so that an unavailable provider is an error before --rebuild deletes the index.
    provider = _select_provider(encoder_name, options)
    workers = options.workers or count_usable_cpus()
    threads = _compute_encoder_threads(options)
    configure_malloc()
    from pipeline.run import IndexRun

    encoder, provider = _get_encoder(encoder_name, provider, location.home, options, shared)
    if provider != providers.CPU or encoder_name is EncoderName.STATIC:
        threads = 1  # an accelerator runs one call at a time, and the static encoder is Python code
    run_options = _build_run_options(provider, options)
    logger.info(
        "event=resources workers=%d threads=%d commit_batch=%d encoder=%s provider=%s",
        workers,
        threads,
        run_options.commit_batch,
        encoder_name,
        provider,
    )
    repository_name = shared.repository_name if shared else ""
    with index_output.report_progress(show_bar=options.show_progress, name=repository_name) as report:
        summary = IndexRun(
            repository,
            location,
            run_options,
            encoder,
            workers,
            threads,
            report,
            keep_encoder=shared is not None,
        ).run()
    record_times(location.times, summary.profile)
    commit_graph.refresh(repository, location.git_directory)
    _refresh_vector_index(location, vector_index)
    profile_details: dict[str, int | str] = {
        "workers": workers,
        "threads": threads,
        "commit_batch": run_options.commit_batch,
        "embed_provider": provider,
        "vector_index": vector_index,
    }
    return IndexResult(summary, profile_details, repository.is_partial_clone)


def _refresh_vector_index(location: IndexLocation, vector_index: VectorIndex) -> None:
    """Delete the HNSW index if `vector_index` is NONE; else write it if it is missing or stale."""
    if vector_index is VectorIndex.NONE:
        location.hnsw.unlink(missing_ok=True)
        return
    from stores import database, vector_search

    with database.open_for_reading(location) as connection:
        vector_search.refresh_hnsw_index(connection, location.hnsw)
    logger.info("event=vector_index bytes=%d", location.hnsw.stat().st_size)


def _warn_about_lost_options(
    location: IndexLocation, encoder_name: EncoderName, options: IndexOptions
) -> None:
    """Warn which options a rebuild uses if those recorded in a damaged index cannot be read."""
    from pipeline.write import load_index_versions

    if not location.has_database() or load_index_versions(location) is not None:
        return
    arguments = []
    if options.encoder is None:
        arguments.append(f"--encoder {encoder_name}")
    if options.embed_cache is None:
        arguments.append(f"--embed-cache {EmbedCacheMode.OFF}")
    if not options.head_only:
        # Given patterns are listed, too, because the damaged index may have had others, which are lost.
        arguments += [f"--branch {pattern}" for pattern in options.branch_patterns] or ["--head-only"]
    if arguments:
        logger.warning(
            "The options recorded in the index cannot be read. Rebuilding it with %s.",
            " ".join(arguments),
        )


def _find_encoder_name(location: IndexLocation) -> EncoderName:
    """Return the name of the index's encoder, or of the default encoder if there is no readable index."""
    if not location.has_database():
        return EncoderName.MINILM
    from pipeline.component_versions import get_encoder_name
    from pipeline.write import load_index_versions

    versions = load_index_versions(location)
    encoder_name = get_encoder_name(versions.embedding_model) if versions else None
    return encoder_name or EncoderName.MINILM


def _select_provider(encoder_name: EncoderName, options: IndexOptions) -> str:
    """Return the provider to run the encoder on. Raises BadRequest or ProviderUnavailable for an unusable option."""
    if encoder_name is EncoderName.STATIC:
        if options.embed_provider not in {EmbedProvider.AUTO, EmbedProvider.CPU}:
            raise BadRequest(
                f"--embed-provider {options.embed_provider} cannot run the encoder {encoder_name}.",
                hint="This encoder needs only the CPU. Omit --embed-provider.",
            )
        return providers.CPU
    provider = providers.choose_provider(
        options.embed_provider.value, has_cuda_devices=config.load_settings().has_cuda_devices
    )
    if provider != providers.CPU:
        try:
            providers.check_built_in(provider)
        except providers.ProviderUnavailable as error:
            return _fall_back_to_cpu(error, options)
    return provider


def _fall_back_to_cpu(error: providers.ProviderUnavailable, options: IndexOptions) -> str:
    """Warn and return the CPU provider if the option is `auto`; else raise the error."""
    if options.embed_provider is not EmbedProvider.AUTO:
        raise error
    logger.warning("%s Embedding on the CPU. %s", error.message, error.hint)
    return providers.CPU


def _get_encoder(
    encoder_name: EncoderName,
    provider: str,
    home: Path,
    options: IndexOptions,
    shared: SharedEncoders | None,
) -> tuple[Encoder, str]:
    """Return the encoder and the provider that runs it. Reuse what an earlier run loaded for the same arguments."""
    encoders = shared.encoders if shared else {}
    key = encoder_name, provider
    if key not in encoders:
        encoders[key] = _load_encoder(encoder_name, provider, home, options)
    return encoders[key]


def _load_encoder(
    encoder_name: EncoderName, provider: str, home: Path, options: IndexOptions
) -> tuple[Encoder, str]:
    """Load the encoder. Return it with the provider that runs it: `provider`, or the CPU after `_fall_back_to_cpu`."""
    if encoder_name is not EncoderName.MINILM:
        return create_bundled_encoder(encoder_name), provider
    try:
        return providers.create_encoder(provider, home), provider
    except providers.ProviderUnavailable as error:
        provider = _fall_back_to_cpu(error, options)
        return providers.create_encoder(provider, home), provider


def _compute_encoder_threads(options: IndexOptions) -> int:
    """Return the number of encoder threads; the option 0 means one for each usable CPU."""
    if options.threads is not None:
        return options.threads or count_usable_cpus()
    return max(1, int(count_usable_cpus() * _RESOURCE_SHARES[options.resources]))


def _build_run_options(provider: str, options: IndexOptions) -> RunOptions:
    from pipeline.embed import TEXTS_PER_TASK, TEXTS_PER_TRANSACTION
    from pipeline.run import COMMITS_PER_BATCH, RunOptions

    # A killed run loses its unfinished batch, so --resources makes no batch larger than the default.
    commit_batch = options.commit_batch or int(
        COMMITS_PER_BATCH * min(_RESOURCE_SHARES[options.resources], 1)
    )
    return RunOptions(
        commit_batch=commit_batch,
        force=options.force,
        rebuild=options.rebuild,
        embed_cache=options.embed_cache,
        # On an accelerator, a call groups its texts by length, so it gets all texts of a transaction.
        embed_batch=options.embed_batch
        or (TEXTS_PER_TASK if provider == providers.CPU else TEXTS_PER_TRANSACTION),
        skip_vectors=options.skip_vectors,
        scheduler=options.scheduler,
        branch_patterns=options.branch_patterns,
        head_only=options.head_only,
    )
