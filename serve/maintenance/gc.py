"""Command `lineage gc`: list of data that is no longer needed, and its deletion after a confirmation.

Only listed items are deleted. Each deletion takes the locks of a writer and checks again that the item is not needed. A
repository that is not found may have been deleted, or may be on an unmounted disk. If that is uncertain, its index is
deleted only with `--absent` or after a confirmation of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from pipeline.component_versions import get_embedding_models, get_encoder_name
from pipeline.git.errors import NotARepository
from pipeline.git.repository import Repository, open_repository
from pipeline.options import EncoderName
from pipeline.walk import find_referenced_commits
from pipeline.write import load_index_versions
from serve.cli.terminal import print_raw, print_warning
from serve.daemon import process
from serve.daemon.process import DaemonPaths, DaemonUnavailable
from serve.repositories import locate_index
from serve.text import escape_line, format_count
from stores import database, embedding_cache, history, index_location, locks, maintenance, writer
from stores.errors import LineageError
from stores.hunk_details import Connection
from stores.index_location import IndexLocation
from stores.locks import Deadline, IndexBusy

# Parent directories of removable and network disks.
MOUNT_DIRECTORIES: Final = tuple(map(Path, ("/media", "/mnt", "/run/media", "/Volumes", "/net", "/autofs")))

# Time to wait for a program that is starting a daemon, which takes one or two seconds.
START_LOCK_SECONDS: Final = 5.0
# Time to wait for an index that another process writes. A batch of an index run takes less than 0.1 s.
INDEX_WAIT_SECONDS: Final = 2.0
NOTHING_TO_DELETE: Final = "Nothing to delete."

Confirm = Callable[[str], bool]


class NotDeletedError(LineageError):
    """Error for selected items that could not be deleted."""


class NotListedError(LineageError):
    """Error for index directories that could not be read. The items in the other directories were listed."""


class ItemKind(StrEnum):
    """Kind of a deletable item."""

    INDEX = "index"
    COMMITS = "commits"
    CACHE = "cache"
    LEFTOVER = "leftover"


@dataclass(frozen=True, slots=True)
class DeletableItem:
    """Data that can be deleted.

    `reason`: why it is not needed. `size_bytes`: approximate size. `delete` takes the locks of writers, and deletes
    only what is still not needed. `is_certain` is False if only the user can know that the data is not needed, as for a
    repository on a disk that may be unmounted.
    """

    kind: ItemKind
    description: str
    reason: str
    size_bytes: int
    delete: Callable[[], None]
    is_certain: bool = True


@dataclass(frozen=True, slots=True)
class RepositoryStatus:
    """State of the repository of an index.

    `reason`: why the index is not needed; empty if the repository still exists. `is_certain`: True if the
    repository certainly no longer exists at its path. `repository`: the repository if it could be opened.
    """

    reason: str = ""
    is_certain: bool = False
    repository: Repository | None = None


def collect_garbage(home: Path, *, yes: bool, include_uncertain: bool, confirm: Confirm | None) -> None:
    """List deletable items, and delete them with `yes` or after `confirm` returns True.

    Uncertain items are deleted if `yes` and `include_uncertain` are given, or after a confirmation of each. `confirm`
    is None if the user cannot be asked. Raise NotDeletedError if a selected item could not be deleted,
    otherwise NotListedError if an index directory could not be read.
    """
    unreadable: list[Path] = []
    busy: list[str] = []
    items = list(find_deletable(home, unreadable.append, busy.append))
    for reason in busy:
        print_warning(escape_line(reason))
    for folder in unreadable:
        print_warning(f"{escape_line(str(folder))} cannot be read. It is left out.")
    print_raw("\n".join(format_items(items)))
    selected_items = _select_items(items, yes=yes, include_uncertain=include_uncertain, confirm=confirm)
    failed_items = [item for item in selected_items if not _delete_item(item)]
    if selected_items:
        freed_bytes = sum(item.size_bytes for item in selected_items if item not in failed_items)
        print_raw(
            f"Deleted {_count_items(len(selected_items) - len(failed_items))}, about {format_size(freed_bytes)}."
        )
    elif items:
        print_raw(_suggest_next_step(items))
    if failed_items:
        raise NotDeletedError(
            f"{len(failed_items)} of {_count_items(len(selected_items))} could not be deleted.",
            hint="Run `lineage gc` again when no other program uses them.",
        )
    if unreadable:
        raise NotListedError(
            "Not all index directories could be read.", hint="Check the permissions of those named above."
        )


def is_interactive() -> bool:
    """Return whether stdin and stdout are a terminal, so that the user can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _select_items(
    items: Sequence[DeletableItem], *, yes: bool, include_uncertain: bool, confirm: Confirm | None
) -> list[DeletableItem]:
    certain_items = [item for item in items if item.is_certain]
    uncertain_items = [item for item in items if not item.is_certain]
    if yes:
        return [*certain_items, *(uncertain_items if include_uncertain else [])]
    if confirm is None:
        return []
    is_confirmed = bool(certain_items) and confirm(f"Delete {_count_items(len(certain_items))}?")
    # One question for each, because one disk may be gone for good and another only unmounted.
    confirmed_items = [
        item for item in uncertain_items if confirm(escape_line(f"Also delete the {item.description}?"))
    ]
    return [*(certain_items if is_confirmed else []), *confirmed_items]


def _delete_item(item: DeletableItem) -> bool:
    try:
        item.delete()
    except (LineageError, OSError) as error:
        print_warning(f"{item.description} was not deleted: {error}")
        return False
    return True


def _suggest_next_step(items: Sequence[DeletableItem]) -> str:
    are_certain = all(item.is_certain for item in items)
    hint = "" if are_certain else " Add --absent for those that may still be needed."
    return f"Nothing was deleted. Run `lineage gc --yes` to delete the items.{hint}"


def format_items(items: Sequence[DeletableItem]) -> list[str]:
    """Return a line for each item, and a line with the total size of the certain items."""
    if not items:
        return [NOTHING_TO_DELETE]
    certain_items = [item for item in items if item.is_certain]
    uncertain_count = len(items) - len(certain_items)
    certain_bytes = sum(item.size_bytes for item in certain_items)
    total = f"{format_size(certain_bytes)} in {_count_items(len(certain_items))}"
    uncertain_note = f"; {_count_items(uncertain_count)} may still be needed" if uncertain_count else ""
    return [*map(format_item, items), f"{total}{uncertain_note}."]


def format_item(item: DeletableItem) -> str:
    """Return the size of the item, what it is, and why it can be deleted."""
    return escape_line(f"{format_size(item.size_bytes):>9}  {item.description}: {item.reason}")


def format_size(size: int) -> str:
    """Return a number of bytes with a decimal unit."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"


def _count_items(count: int) -> str:
    return format_count(count, "item")


def check_repository(location: IndexLocation) -> RepositoryStatus:
    """Check whether the repository of an index still exists at its path."""
    try:
        if not location.path.exists():
            return _describe_missing_repository(location.path)
        try:
            repository = open_repository(location.path)
        except NotARepository:
            return _describe_replaced_repository(location.path)
        return _check_identity(location, repository)
    except (LineageError, OSError):  # the repository exists; `lineage doctor` reports why it cannot be read
        return RepositoryStatus()


def _check_identity(location: IndexLocation, repository: Repository) -> RepositoryStatus:
    if repository.canonical_path != location.path:
        return _describe_replaced_repository(location.path)
    # Not `find_index`, which does not find an index whose `place.json` is damaged.
    if locate_index(location.home, repository).repo_id != location.repo_id:
        if repository.is_shallow:
            return RepositoryStatus("the shallow clone at its path lacks its first commit")
        return RepositoryStatus("another repository has its path now", is_certain=True)
    return RepositoryStatus(repository=repository)


def _describe_missing_repository(path: Path) -> RepositoryStatus:
    if any(path.is_relative_to(mount) for mount in MOUNT_DIRECTORIES):
        return RepositoryStatus(f"{path} does not exist; its disk may not be mounted")
    if path.parent == Path(path.anchor) or not path.parent.is_dir() or not _has_entries(path.parent):
        return RepositoryStatus(f"{path.parent} does not exist or is empty; its disk may not be mounted")
    return RepositoryStatus("the repository was deleted or moved", is_certain=True)


def _describe_replaced_repository(path: Path) -> RepositoryStatus:
    """Return the status for a path that exists and has no repository."""
    is_certain = not path.is_dir() or _has_entries(path)
    return RepositoryStatus("the repository no longer exists", is_certain=is_certain)


def _has_entries(directory: Path) -> bool:
    """Return whether the directory has entries. An empty directory may be the mount point of an unmounted disk."""
    return any(directory.iterdir())


def find_deletable(
    home: Path, report_unreadable: Callable[[Path], None], report_busy: Callable[[str], None]
) -> Iterator[DeletableItem]:
    """Yield the deletable items of each index, then empty index directories and the socket of a killed daemon.

    `report_unreadable`: called with each index directory that cannot be read. `report_busy`: called with a message for
    each index whose commits and vectors are not checked, because another process holds it.
    """
    unreadable_folders: list[Path] = []
    empty_locations: list[IndexLocation] = []
    for location in maintenance.list_index_directories(home):
        try:
            if maintenance.is_empty_directory(location.folder):
                empty_locations.append(location)
        except OSError:
            unreadable_folders.append(location.folder)
            report_unreadable(location.folder)
    for location in index_location.list_indexes(home):
        if location.folder in unreadable_folders:
            continue
        status = check_repository(location)
        if status.reason:
            yield _create_index_item(location, status)
        else:
            yield from _find_index_items(location, status.repository, report_busy)
    for location in empty_locations:
        size = maintenance.measure_disk_usage(location.folder)
        yield DeletableItem(
            ItemKind.LEFTOVER,
            str(location.folder),
            "its index was deleted",
            size,
            partial(maintenance.delete_index_directory, location),
        )
    yield from _find_dead_socket(DaemonPaths(home))


def _create_index_item(location: IndexLocation, status: RepositoryStatus) -> DeletableItem:
    size = maintenance.measure_disk_usage(location.folder)
    delete = partial(_delete_index, location)
    return DeletableItem(
        ItemKind.INDEX, f"index of {location.path}", status.reason, size, delete, is_certain=status.is_certain
    )


def _delete_index(location: IndexLocation) -> None:
    if check_repository(location).reason:  # the repository may have been restored in the meantime
        maintenance.delete_index_directory(location)


def _find_index_items(
    location: IndexLocation, repository: Repository | None, report_busy: Callable[[str], None]
) -> Iterator[DeletableItem]:
    leftovers = maintenance.find_leftover_files(location)
    if leftovers:
        names = ", ".join(path.name for path in leftovers)
        yield DeletableItem(
            ItemKind.LEFTOVER,
            f"{names} in {location.folder}",
            "an index run was killed",
            maintenance.measure_disk_usage(*leftovers),
            partial(maintenance.delete_leftover_files, location),
        )
    try:
        if location.has_database():
            deadline = Deadline.for_index(location.folder, INDEX_WAIT_SECONDS)
            with locks.acquire_index(location.folder, exclusive=False, deadline=deadline):
                pass
    except IndexBusy as error:
        report_busy(f"The index of {location.path} is not checked. {error.message} {error.hint}")
        return
    except (LineageError, OSError):  # an index that cannot be read can have stale vectors
        pass
    yield from _find_stale_vectors(location)
    if repository is not None and not _has_truncated_history(repository):
        yield from _find_unreachable_item(location, repository)


def _find_stale_vectors(location: IndexLocation) -> Iterator[DeletableItem]:
    """Yield an item for the cached vectors of other models than that of the next index run."""
    try:
        stale_count, total_count = embedding_cache.count_unused_entries(
            location, _find_embedding_model(location)
        )
    except LineageError:  # the index is in use, so the model of its next run is unknown
        return
    if stale_count:
        description = f"{format_count(stale_count, 'cached vector')} of {location.path}"
        size_bytes = maintenance.measure_disk_usage(location.embeddings) * stale_count // total_count
        delete = partial(_delete_stale_vectors, location)
        yield DeletableItem(ItemKind.CACHE, description, "of another embedding model", size_bytes, delete)


def _delete_stale_vectors(location: IndexLocation) -> None:
    with locks.acquire_run_lock(location):
        embedding_cache.delete_unused_entries(location, _find_embedding_model(location))


def _find_embedding_model(location: IndexLocation) -> str:
    """Return the embedding model of the next index run."""
    recorded_versions = load_index_versions(location)
    encoder_name = get_encoder_name(recorded_versions.embedding_model) if recorded_versions else None
    return get_embedding_models()[encoder_name or EncoderName.MINILM]


def _has_truncated_history(repository: Repository) -> bool:
    """Return whether a shallow clone or grafts cut the history off, so that commits may only seem unreachable."""
    return repository.is_shallow or (repository.common_dir / "info" / "grafts").exists()


def _find_unreachable_item(location: IndexLocation, repository: Repository) -> Iterator[DeletableItem]:
    try:
        with database.open_for_reading(location) as connection:
            shas = find_unreachable_commits(repository, connection)
            share = history.compute_hunk_share(connection, shas)
    except LineageError:  # an index that cannot be read stays; `lineage doctor` reports why
        return
    if shas:
        description = f"{format_count(len(shas), 'commit')} in the index of {location.path}"
        size_bytes = int(share * location.database.stat().st_size)
        yield DeletableItem(
            ItemKind.COMMITS,
            description,
            "no branch, tag or reflog reaches them",
            size_bytes,
            partial(_delete_unreachable_commits, location),
        )


def find_unreachable_commits(repository: Repository, connection: Connection) -> list[str]:
    """Return the recorded commits, unreadable ones included, that no branch, tag, reflog or other reference reaches.

    The HEAD and the last commit that the index records count as references, because the index must keep all commits
    that they reach until an index run moves them.
    """
    summary = history.load_index_summary(connection)
    if summary is None:
        return []
    indexed_tips = (summary.last_indexed_commit, summary.head_commit)
    reachable = find_referenced_commits(repository, extra_tips=indexed_tips)
    unreadable = [entry.commit_sha for entry in history.load_unreadable_commits(connection)]
    # Recorded branch tips are deleted too, because a recorded tip means that the index has all commits that it reaches.
    branch_tips = history.load_branch_tips(connection)
    return sorted({*history.list_recorded_commits(connection), *unreadable, *branch_tips} - reachable)


def _delete_unreachable_commits(location: IndexLocation) -> None:
    with locks.acquire_run_lock(location):
        # Computed again, because a new branch may reach some of the listed commits by now.
        repository = open_repository(location.path)
        with database.open_for_writing(location) as connection:
            writer.delete_commits(connection, find_unreachable_commits(repository, connection))
        maintenance.compact(location)


def _find_dead_socket(paths: DaemonPaths) -> Iterator[DeletableItem]:
    if _is_dead_socket(paths):
        delete = partial(_delete_dead_socket, paths)
        yield DeletableItem(ItemKind.LEFTOVER, str(paths.socket), "its daemon was killed", 0, delete)


def _delete_dead_socket(paths: DaemonPaths) -> None:
    deadline = Deadline.after(START_LOCK_SECONDS, lambda _: DaemonUnavailable("A daemon is being started."))
    with (
        locks.acquire_exclusive_lock(paths.start_lock, deadline),
        locks.acquire_exclusive_lock(paths.lock, deadline),
    ):
        if _is_dead_socket(paths):
            paths.socket.unlink(missing_ok=True)


def _is_dead_socket(paths: DaemonPaths) -> bool:
    return paths.socket.is_socket() and not process.is_running(paths)
