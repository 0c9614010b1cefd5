"""Command `lineage index` of several repositories.

There are two stages. First the commits of all repositories are read and their words are indexed, so that queries soon
find them. Then their texts are embedded for search by meaning, with encoders that are loaded once. If a repository
fails, the others are still indexed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipeline.git.errors import NotARepository
from pipeline.git.git_dir import find_repositories
from pipeline.profile import Profile
from serve import config, process, text
from serve.cli import index_output
from serve.cli.index import (
    IndexOptions,
    IndexResult,
    SharedEncoders,
    check_options,
    index_repository,
    log_warnings,
)
from serve.cli.terminal import describe_failure, is_interrupt, print_note, print_text
from serve.errors import BadRequest
from stores.errors import LineageError

logger = logging.getLogger(__name__)


class RepositoriesFailed(LineageError):
    """Error for a run in which some of the repositories could not be indexed."""


def run_index_many_command(paths: Sequence[Path], directory: Path | None, options: IndexOptions) -> None:
    """Index the repositories at `paths` and below `directory`. Raise RepositoriesFailed if one of them fails."""
    check_options(options)
    settings = config.load_settings()
    process.configure_log(settings.log_level)
    paths_below = [] if directory is None else _find_repositories_below(directory)
    run = _Run(tuple(dict.fromkeys([*paths, *paths_below])), options, settings.home)
    try:
        run.extract()
        if not options.skip_vectors:
            run.embed()
    except BaseException as error:
        if is_interrupt(error):
            print_note(
                f"stopped with {len(run.unfinished):,} of {len(run.paths):,} repositories unfinished. "
                "Run the same command to continue."
            )
        raise
    if run.failed:
        raise RepositoriesFailed(
            f"{len(run.failed):,} of {len(run.paths):,} repositories could not be indexed: "
            f"{', '.join(map(str, run.failed))}."
        )


def _find_repositories_below(directory: Path) -> list[Path]:
    if not directory.is_dir():
        raise BadRequest(f"{directory} is not a directory.", hint="Give --recursive a directory.")
    paths = find_repositories(directory, lambda error: logger.warning("A directory is left out: %s", error))
    if not paths:
        raise NotARepository(
            f"There is no git repository below {directory}.",
            hint="Hidden directories, symbolic links, submodules and linked work trees are left out.",
        )
    return paths


@dataclass(slots=True)
class _Run:
    """Index run of several repositories.

    `unfinished`: repositories that are neither complete nor failed, each with the result of its first stage (None until
    the stage ends). `failed`: repositories that could not be indexed.
    """

    paths: tuple[Path, ...]
    options: IndexOptions
    home: Path
    shared: SharedEncoders = field(default_factory=SharedEncoders)
    unfinished: dict[Path, IndexResult | None] = field(init=False)
    failed: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.unfinished = dict.fromkeys(self.paths)

    def extract(self) -> None:
        """Run the first stage: index the words of each repository's commits, without embedding."""
        options = replace(self.options, skip_vectors=True)
        for path in self.paths:
            with self._report_failure(path):
                result = self._index(path, options)
                if result.summary is None:
                    self._finish(path, result, result.message)
                    continue
                # If git could read none of the commits, the repository has failed.
                index_output.check_readable(result.summary, is_partial_clone=result.is_partial_clone)
                duration = index_output.format_duration(result.summary.seconds)
                line = f"indexed by words in {duration} - {index_output.format_counts(result.summary)}"
                if result.summary.pending_texts and not self.options.skip_vectors:
                    print_text(f"{path}: {line}")
                    self.unfinished[path] = result
                else:
                    self._finish(path, result, line)

    def embed(self) -> None:
        """Run the second stage: embed the texts of each repository."""
        # The first stage has already applied these options.
        options = replace(self.options, rebuild=False, force=False, yes=False)
        for path, first_result in tuple(self.unfinished.items()):
            with self._report_failure(path):
                result = self._index(path, options)
                first_summary = first_result.summary if first_result else None
                if result.summary is None or first_summary is None:
                    self._finish(path, result, result.message)
                    continue
                result.summary.profile.merge(first_summary.profile)
                embedded_count = first_summary.pending_texts - result.summary.pending_texts
                duration = index_output.format_duration(result.summary.seconds)
                self._finish(
                    path, result, f"embedded {text.format_count(embedded_count, 'text')} in {duration}"
                )

    def _index(self, path: Path, options: IndexOptions) -> IndexResult:
        self.shared.repository_name = path.absolute().name
        stage = "extract" if options.skip_vectors else "embed"
        logger.info("event=repository stage=%s path=%s", stage, path)
        return index_repository(path, options, self.home, self.shared)

    def _finish(self, path: Path, result: IndexResult, line: str) -> None:
        """Print the result (`line`), the profile and the warnings of a repository, and mark it as finished."""
        print_text(f"{path}: {line}")
        if self.options.profile and (result.summary or result.versions):
            profile = result.summary.profile if result.summary else Profile()
            print_text(profile.to_json_line(repository=str(path), **result.profile_details))
        if result.summary:
            index_output.log_warnings(result.summary, is_partial_clone=result.is_partial_clone)
        else:
            log_warnings(result)
        del self.unfinished[path]

    @contextmanager
    def _report_failure(self, path: Path) -> Iterator[None]:
        """Print an error of the body instead of raising it. Commands that its hint suggests get the argument `path`."""
        text.set_path_argument(path)
        try:
            yield
        except (LineageError, OSError) as error:
            failure = describe_failure(error)
            if failure is None or not failure.message:  # None: unexpected error; no message: closed terminal
                raise
            print_note(f"{path}: {failure.message}")
            self.failed.append(path)
            del self.unfinished[path]
        finally:
            text.set_path_argument(Path())
