"""Names and paths of indexed repositories; access to their indexes by SQL, and to git.

Every program imports this module, so functions import the database, the encoders and libgit2 when they need them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipeline.git.errors import NotARepository
from pipeline.options import EncoderName
from serve.api_types import NamedRepository
from serve.errors import BadRequest
from serve.text import format_command
from stores.errors import LineageError
from stores.index_location import (
    DATABASE_FILE,
    IndexLocation,
    find_files,
    find_location,
    list_indexes,
    resolve_location,
)

if TYPE_CHECKING:
    from mindmap.git import GitRunner
    from pipeline.encoders.base import SearchEncoder
    from pipeline.git.repository import Repository
    from stores.index_copy import OpenIndex

# Name that stands for all indexed repositories.
ALL: Final = "*"
# Maximum number of repositories that a message names.
MAX_NAMES: Final = 10
# Time limit of a git command of mindmap. An agent or the page waits for it.
MINDMAP_GIT_SECONDS: Final = 60.0


def locate_index(home: Path, repository: Repository) -> IndexLocation:
    """Return the location of the repository's index, which need not exist yet."""
    return resolve_location(home, repository.canonical_path, *_build_identity_checks(repository))


def find_index(home: Path, repository: Repository) -> IndexLocation | None:
    """Return the location of the repository's index; None if no directory under `home` can be its index.

    In this case, the function is faster than `locate_index`, which searches for the repository's first commit.
    """
    return find_location(home, repository.canonical_path, *_build_identity_checks(repository))


def list_repositories(home: Path) -> list[NamedRepository]:
    """Return the repositories that have an index, sorted by name.

    The name of a repository is the name of its directory, without `.git`. Repositories whose directories have the same
    name are named by their paths.
    """
    paths = sorted({location.path for location in list_indexes(home) if location.has_database()})
    counts = Counter(map(_get_name, paths))
    names = (_get_name(path) if counts[_get_name(path)] == 1 else str(path) for path in paths)
    return sorted(NamedRepository(name, str(path)) for name, path in zip(names, paths, strict=True))


def list_unidentified_indexes(home: Path) -> list[Path]:
    """Return the directories of indexes whose repository is unknown.

    The path of the repository can be read neither from `place.json` nor from the database.
    """
    identified = {location.folder for location in list_indexes(home)}
    directories = {file.parent for file in find_files(home, DATABASE_FILE)} - identified
    return sorted(directory for directory in directories if not directory.is_symlink())


def format_unidentified_indexes(home: Path) -> str:
    """Return the first of these directories and the number of the others, as text. It is empty without such indexes."""
    directories = list_unidentified_indexes(home)
    others = f" and {len(directories) - 1:,} more" if len(directories) > 1 else ""
    return f"{directories[0]}{others}" if directories else ""


def resolve_repositories(home: Path, names: Sequence[str], cwd: Path) -> list[NamedRepository]:
    """Return the indexed repositories with these names or paths, each once; `*` stands for all.

    Paths may be relative to `cwd`. A path also finds an index that cannot be read, whose opening gives the reason.
    Raises BadRequest if nothing is indexed or named, and for a name that no indexed repository has, or that several
    have.
    """
    indexed_repositories = list_repositories(home)
    if not indexed_repositories:
        unreadable = format_unidentified_indexes(home)
        if not unreadable:
            raise BadRequest("No repository is indexed.", hint="Run `lineage index` first.")
        if ALL in names:
            raise BadRequest(
                f"The index cannot be read: {unreadable}.",
                hint="`lineage status --all` says what is wrong.",
            )
    resolved: list[NamedRepository] = []
    for name in names:
        resolved += (
            indexed_repositories if name == ALL else [_resolve_name(home, name, indexed_repositories, cwd)]
        )
    if not resolved:
        raise BadRequest("No repository is named.", hint=f"Name one, or use `{ALL}` for all.")
    return list(dict.fromkeys(resolved))


def resolve_repository_path(home: Path, name: str, cwd: Path) -> Path:
    """Return the path of the indexed repository with this name. If there is none, `name` is a path relative to `cwd`.

    A repository that is given by its path needs no index. Raises BadRequest if the path does not exist, or if several
    repositories have the name.
    """
    indexed_repositories = list_repositories(home)
    if repository := _find_by_name(name, indexed_repositories):
        return Path(repository.path)
    return _resolve_path(name, indexed_repositories, cwd)


def describe_indexed_repositories(home: Path) -> str:
    """Return a sentence that names up to `MAX_NAMES` indexed repositories."""
    names = [repository.name for repository in list_repositories(home)]
    if not names:
        return "No repository is indexed yet."
    others = f" and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else ""
    return f"Indexed repositories: {', '.join(names[:MAX_NAMES])}{others}."


@contextmanager
def open_sql(path: Path, home: Path, *, wait: float | None = None) -> Iterator[OpenIndex]:
    """Open the index of the repository at `path` for SQL, which may also use git tags and the encoder.

    `wait`: seconds to wait for an index run; None for `stores.database.READ_WAIT_SECONDS`. Raises the errors of
    `stores.sql.open_for_sql`.
    """
    from pipeline.git.changes import decode_path
    from pipeline.git.repository import open_repository
    from stores.database import READ_WAIT_SECONDS
    from stores.sql import open_for_sql

    repository = open_repository(path)
    location = locate_index(home, repository)
    wait = READ_WAIT_SECONDS if wait is None else wait
    tags = [(decode_path(os.fsencode(name)), sha) for name, sha in repository.list_tags()]
    with open_for_sql(location, _encode, tags, wait=wait) as index:
        yield index


def open_git(path: str) -> GitRunner:
    """Return the git program for the repository that contains the mindmap workspace `path`. Raises NotARepository.

    Threads that need the same command at the same time share its run.
    """
    from pipeline.git.commit_graph import create_git_program
    from pipeline.git.git_cli import SharedGitRunner, run_shared
    from pipeline.git.repository import open_repository

    program = run_shared(path, lambda: create_git_program(open_repository(Path(path))))
    return SharedGitRunner(replace(program, timeout_seconds=MINDMAP_GIT_SECONDS))


def find_git(path: str) -> GitRunner | None:
    """Return the git program for the repository that contains the mindmap workspace `path`; None if there is none."""
    try:
        return open_git(path)
    except NotARepository:
        return None


def _encode(model: str | None, text: str) -> list[float]:
    """Return the vector of a query. `model`: the index's embedding model. Raises LineageError for an unknown model."""
    from pipeline.component_versions import get_encoder_name
    from stores.compatibility import REBUILD_COMMAND

    name = get_encoder_name(model)
    if name is None:
        raise LineageError(
            f"The index was built with the encoder {model}, which this version does not have.",
            hint=f"Run `{REBUILD_COMMAND}` to build the index with an encoder of this version.",
        )
    vector: list[float] = _get_encoder(name).encode_queries([text])[0].tolist()
    return vector


@cache
def _get_encoder(name: EncoderName) -> SearchEncoder:
    from pipeline.encoders.base import create_bundled_encoder

    return create_bundled_encoder(name)


def _resolve_name(
    home: Path, name: str, repositories: Sequence[NamedRepository], cwd: Path
) -> NamedRepository:
    """Return the indexed repository that has the name `name`, or that contains the path `name`.

    `repositories`: all indexed repositories. Raises BadRequest if none fits, or if several have the name.
    """
    if repository := _find_by_name(name, repositories):
        return repository
    from pipeline.git.repository import open_repository

    path = _resolve_path(name, repositories, cwd)
    git_repository = open_repository(path)
    canonical_path = git_repository.canonical_path
    for repository in repositories:
        if repository.path == str(canonical_path):
            return repository
    if locate_index(home, git_repository).has_database():
        return NamedRepository(_get_name(canonical_path), str(canonical_path))
    command = format_command("lineage", "index", str(path)) or "`lineage index` in it"
    raise BadRequest(f"{name} is not indexed yet.", hint=f"Run {command}.")


def _find_by_name(name: str, repositories: Sequence[NamedRepository]) -> NamedRepository | None:
    """Return the repository with this name; None if there is none. Raises BadRequest if several have it."""
    matches = [
        repository
        for repository in repositories
        if name in (repository.name, Path(repository.path).name, _get_name(Path(repository.path)))
    ]
    if len(matches) > 1:
        raise BadRequest(
            f"Several repositories are called {name!r:.200}.",
            hint=f"Give the path of one: {', '.join(repository.path for repository in matches)}.",
        )
    return matches[0] if matches else None


def _resolve_path(name: str, repositories: Sequence[NamedRepository], cwd: Path) -> Path:
    """Return the path `name`, which may be relative to `cwd`.

    If it does not exist, raises BadRequest that suggests similar names of `repositories`.
    """
    try:
        path = cwd / Path(name).expanduser()
        exists = path.exists()
    except (RuntimeError, OSError):  # the home directory of an unknown user, or a name that is too long
        exists = False
    if not exists:
        similar_names = get_close_matches(name, [repository.name for repository in repositories], n=3)
        hint = f"Did you mean {' or '.join(similar_names)}? " if similar_names else ""
        raise BadRequest(
            f"No indexed repository is called {name!r:.200}.",
            hint=f"{hint}`lineage status --all` lists the indexes.",
        )
    return path


def _get_name(path: Path) -> str:
    """Return the name of a directory without `.git` at its end."""
    return path.name.removesuffix(".git") or path.name


def _build_identity_checks(repository: Repository) -> tuple[Callable[[], str | None], Callable[[str], bool]]:
    """Return two functions that identify the repository.

    The first function returns the repository's first commit; None if it has no commits. The second function returns
    whether the repository has a given commit.
    """
    head = repository.read_head()
    return lambda: repository.find_root_commit(head) if head else None, repository.contains
