"""`lineage index`: what the flags mean, and the run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipeline.encoders import providers
from pipeline.git import commit_graph
from pipeline.git.errors import NothingToIndex
from pipeline.git.repository import Repository, open_repository
from pipeline.malloc import limit_malloc_arenas
from pipeline.options import EmbedCache, Encoding
from pipeline.profile import Profile
from pipeline.workers import Workers, usable_cpus
from serve import config, logs
from serve.cli import index_output
from serve.cli.entry import LEAVES
from serve.cli.options import EmbedProvider, Flags, Resources
from serve.cli.terminal import say
from serve.errors import BadRequest
from serve.repositories import place_of
from stores import locks
from stores.index_location import Place
from stores.locks import RunAtWork

if TYPE_CHECKING:
    from pipeline.encoders.base import Encoder
    from pipeline.run import Options

logger = logging.getLogger(__name__)

# Commits for each worker from which on all of them will be needed: a batch.
WORTH_BEGINNING: Final = 100

# Share of the processors for the encoder, and of the specification's batch: half, all, double.
_SHARES: Final = {Resources.CONSERVATIVE: 0.5, Resources.AUTO: 1.0, Resources.AGGRESSIVE: 2.0}


def index(path: Path, flags: Flags) -> None:
    """Bring the index of the repository at `path` up to its HEAD, and say what was done."""
    _refuse(flags)
    said = config.read()
    logs.configure(said.log)
    repository = open_repository(path)
    if repository.head() is None:
        raise NothingToIndex(repository.root)
    place = place_of(said.home, repository)
    if flags.incremental and not flags.force:
        _take_up(path, repository.git_dir, place, flags)
        return
    with locks.sole_run(place):
        _run(repository, place, flags)


def _take_up(path: Path, git_dir: Path, place: Place, flags: Flags) -> None:
    """Index what is new, after the run at work; not when another run waits already, which will see it."""
    with locks.next_run(place, git_dir, _tell) as run:
        if run is None:
            say(LEAVES)
            return
        repository = open_repository(path)  # anew: HEAD moves while a run waits
        done = _indexed_head(repository, place)
        if done is not None:
            say(f"index up-to-date at {done}")
            if flags.profile:
                say(Profile().line())
            return
        run.begin()
        _run(repository, place, flags)


def _tell(at_work: RunAtWork) -> None:
    logger.info("%s Waiting for it.", at_work.message)


def _refuse(flags: Flags) -> None:
    if flags.rebuild and (flags.incremental or flags.force):
        other = "--incremental" if flags.incremental else "--force"
        raise BadRequest(
            f"--rebuild conflicts with {other}.",
            hint="--rebuild starts from nothing; give it alone with --yes.",
        )
    if flags.rebuild and not flags.yes:
        raise BadRequest(
            "--rebuild deletes the whole index of this repository.",
            hint="Confirm with `lineage index --rebuild --yes`.",
        )
    if flags.yes and not flags.rebuild:
        raise BadRequest(
            "--yes confirms --rebuild, which was not given.", hint="Leave it out, or add --rebuild."
        )


def _indexed_head(repository: Repository, place: Place) -> str | None:
    """HEAD, when there is nothing to do for it: a pass over it ended, all is read that can be, no side file to make."""
    from stores import database, history
    from stores.history import needs_side_file

    head = repository.head()
    try:
        with database.reading(place) as connection:
            status = history.status(connection)
            waiting = history.unreadable(connection)
            incomplete = needs_side_file(connection)
            if incomplete:
                from stores import quantized_vectors  # with numpy, which a small index can do without

                incomplete = quantized_vectors.is_missing(connection, place)
    except database.NotIndexed:
        return None
    # A pass that aimed at another HEAD and was killed may have left some of that HEAD's snapshot.
    if status is None or not status.completed_commit == status.head_commit == head or incomplete:
        return None
    return None if any(repository.readable(entry.commit_sha) for entry in waiting) else head


def _run(repository: Repository, place: Place, flags: Flags) -> None:
    encoding = flags.encoder or _encoding_at(place)
    if flags.rebuild:
        _tell_of_lost(place, encoding, flags)
    provider = _provider(encoding, flags)  # before anything is started, or deleted by --rebuild
    limit_malloc_arenas()
    with workers_for(repository, place, flags.workers or usable_cpus()) as workers:
        # After the workers have begun, so that both import at the same time.
        from pipeline.encoders.accelerated import InPortions
        from pipeline.run import Pass

        encoder = _encoder(encoding, provider, _threads(flags), place.home)
        portioned = InPortions(encoder, flags.embed_batch) if flags.embed_batch else encoder
        with index_output.heard(bar=flags.progress) as report:
            summary = Pass(repository, place, _options(flags), portioned, workers, report).run()
    commit_graph.refresh(repository, place.graph)
    index_output.tell(summary, profile=flags.profile, partial=repository.is_partial)


def _tell_of_lost(place: Place, encoding: Encoding, flags: Flags) -> None:
    """Say what is taken where a damaged index does not say what it was made with, and no flag does."""
    from pipeline.write import recorded_at

    if not place.database.exists() or recorded_at(place) is not None:
        return
    taken = (
        *((f"--encoder {encoding}",) if flags.encoder is None else ()),
        *((f"--embed-cache {EmbedCache.OFF}",) if flags.embed_cache is None else ()),
    )
    if taken:
        logger.warning(
            "What the index was made with cannot be read: it is made anew with %s, unless you say otherwise.",
            " ".join(taken),
        )


def _encoding_at(place: Place) -> Encoding:
    """The encoder an index has; without one that can be read, the usual."""
    if not place.database.exists():
        return Encoding.MINILM
    from pipeline.component_versions import encoding_of
    from pipeline.write import recorded_at

    recorded = recorded_at(place)
    return (encoding_of(recorded.embedding_model) if recorded else None) or Encoding.MINILM


def _provider(encoding: Encoding, flags: Flags) -> str:
    """What runs the encoder: a table needs, and has, nothing but the CPU."""
    if encoding is Encoding.STATIC:
        if flags.provider not in {EmbedProvider.AUTO, EmbedProvider.CPU}:
            raise BadRequest(
                f"--embed-provider {flags.provider} does not run the encoder {encoding}, which needs only the CPU.",
                hint="Leave out --embed-provider.",
            )
        return providers.CPU
    provider = providers.choose(flags.provider.value, cuda_devices=config.read().cuda_devices)
    if provider != providers.CPU:
        providers.check(provider)
    return provider


def _encoder(encoding: Encoding, provider: str, threads: int, home: Path) -> Encoder:
    if encoding is Encoding.MINILM:
        from pipeline.encoders.accelerated import encoder_for

        return encoder_for(provider, threads, home)
    from pipeline.encoders.registry import bundled_encoder

    return bundled_encoder(encoding, threads)


def workers_for(repository: Repository, place: Place, jobs: int) -> Workers:
    """The processes of a run, begun at once where there is a whole history for them."""
    workers = Workers(jobs)
    head = repository.head()
    if head and not place.database.exists() and repository.reaches_more(head, jobs * WORTH_BEGINNING):
        workers.begin("pipeline.head_symbols")
    return workers


def _threads(flags: Flags) -> int:
    """Encoder threads; 0 leaves the number to the runtime."""
    if flags.threads is not None:
        return flags.threads
    return max(1, int(usable_cpus() * _SHARES[flags.resources]))


def _options(flags: Flags) -> Options:
    from pipeline.run import COMMITS_PER_BATCH, Options

    # Never more than the specification's abort cost, unless asked for.
    batch = flags.commit_batch or int(COMMITS_PER_BATCH * min(_SHARES[flags.resources], 1))
    return Options(
        commit_batch=batch,
        force=flags.force,
        rebuild=flags.rebuild,
        embed_cache=flags.embed_cache,
    )
