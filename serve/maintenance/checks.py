"""Checks of the index directory and of an index for `lineage doctor`, and the classes that all checks share.

The checks are about permissions, disk space, files, content, version, locks and DuckDB extensions.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import Final, TypeAlias

from pipeline.git import commit_graph
from pipeline.git.libgit2 import check_objects
from pipeline.git.repository import Repository, open_repository
from pipeline.workers import WorkerDied, map_groups
from serve import index_status
from serve.config import Settings
from serve.index_status import IndexStatus, describe_unfinished_run
from serve.text import SHA_DIGITS, describe_unreadable_remedy, describe_vector_share, format_count
from stores import database, duckdb_engine, history, index_location, maintenance
from stores.compatibility import RESUME_COMMAND, CompatibilityStatus, CompatibilityVerdict
from stores.connections import MAX_OPEN_WAL_BYTES
from stores.errors import OutOfMemory
from stores.hunk_details import Connection
from stores.index_location import DATABASE_FILE, LOCATION_FILE, IndexLocation
from stores.locks import GATE_LOCK, INDEX_LOCK, RUN_LOCK, find_lock_holders

# Free space that an index run needs besides a copy of the index, for its write-ahead log.
MIN_FREE_BYTES: Final = 200_000_000
# Warn if less space is free than this plus twice the size of the index. A first index of a few thousand
# commits takes several hundred megabytes, including its copy.
COMFORTABLE_FREE_BYTES: Final = 1_000_000_000
HOME_HINT: Final = "Set LINEAGE_HOME to another directory."
SPACE_HINT: Final = "Free disk space. `lineage gc` shows what can be deleted."

# Time to wait for an index that is in use. An index run usually ends its batch in this time.
INDEX_TIMEOUT_SECONDS: Final = 5.0
# Signals of a crash, as joblib names them in its error for a worker process that ended.
CRASH_SIGNALS: Final = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE")
REBUILD_HINT: Final = "Run `lineage index --rebuild --yes`."
# Maximum number of examples, such as commits or directories, in a result.
MAX_NAMED: Final = 3


class Verdict(StrEnum):
    """Severity of a result. WARNING: something works, but not as well as it should. PROBLEM: it does not work."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of a check. The fields are those of the JSON document.

    `found`: description of the state, one line. `remedy`: what the user can do, one line, or empty.
    """

    name: str
    verdict: Verdict
    found: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class CheckContext:
    """Input of all checks.

    `path`: PATH argument of the command. `install_directory`: directory that the running program is installed in.
    `repository`, `location`: the repository at `path` and the location of its index, None if there is none.
    """

    path: Path
    settings: Settings
    install_directory: Path
    repository: Repository | None = None
    location: IndexLocation | None = None


def report_ok(name: str, found: str, remedy: str = "") -> CheckResult:
    """Return a result for something that works. A remedy is optional advice."""
    return CheckResult(name, Verdict.OK, found, remedy)


def report_warning(name: str, found: str, remedy: str) -> CheckResult:
    """Return a result for something that works, but not as well as it should."""
    return CheckResult(name, Verdict.WARNING, found, remedy)


def report_problem(name: str, found: str, remedy: str) -> CheckResult:
    """Return a result for something that does not work."""
    return CheckResult(name, Verdict.PROBLEM, found, remedy)


Check: TypeAlias = Callable[[CheckContext], Iterable[CheckResult]]


def check_home(context: CheckContext) -> Iterator[CheckResult]:
    """Check that the index directory is writable or can be created, and is closed to other users."""
    home = context.settings.home
    index_location.check_home(home)
    try:
        yield _check_home_directory(home)
    except OSError as error:
        yield report_problem("home", f"{home}: {(error.strerror or str(error)).lower()}", HOME_HINT)


def _check_home_directory(home: Path) -> CheckResult:
    if not os.path.lexists(home):
        parent = _find_nearest_directory(home)
        # `os.access` allows the superuser everything, but nobody can create directories in these two.
        is_system = any(map(parent.resolve().is_relative_to, ("/proc", "/sys")))
        if os.access(parent, os.W_OK | os.X_OK) and not is_system:
            return report_ok("home", f"{home} does not exist yet; the first `lineage index` creates it")
        return report_problem("home", f"{home} cannot be created: you cannot write to {parent}", HOME_HINT)
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        return report_problem("home", f"{home} is not writable", f"Run `chmod u+rwx {quote(str(home))}`.")
    mode = stat.S_IMODE(home.stat().st_mode)
    faults, remedy = [], f"Run `chmod go-w {quote(str(home))}`."
    if mode & 0o022:
        writers = "other users" if mode & 0o002 else "the group"
        faults.append(f"{writers} may write to {home} (mode {mode:04o})")
    if readable_by_others := sorted(_find_readable_by_others(home)):
        names = ", ".join(path.name for path in readable_by_others[:MAX_NAMED])
        remaining = len(readable_by_others) - MAX_NAMED
        more = f" and {remaining} more" if remaining > 0 else ""
        remedy = f"Run `chmod -R go-rwx {quote(str(home))}`: diffs may contain secrets."
        faults.append(f"other users may read indexes in {home}: {names}{more}")
    if faults:
        return report_warning("home", "; ".join(faults), remedy)
    return report_ok("home", f"{home}{'; its indexes are' if mode & 0o077 else ','} closed to other users")


def _find_readable_by_others(home: Path) -> Iterator[Path]:
    """Yield the directories of indexes in `home` that other users have access to; none if `home` is closed to them."""
    if not home.stat().st_mode & 0o077:
        return
    directories = {file.parent for name in (LOCATION_FILE, DATABASE_FILE) for file in home.glob(f"*/{name}")}
    for directory in directories:
        if directory.stat().st_mode & 0o077:
            yield directory


def _find_nearest_directory(path: Path) -> Path:
    """Return the path if it exists, else its nearest existing parent."""
    return next(directory for directory in (path, *path.parents) if directory.exists())


def check_disk_space(context: CheckContext) -> Iterator[CheckResult]:
    """Check that there is enough space for an index run, which writes a copy of the index and a write-ahead log."""
    location = context.location
    size = location.database.stat().st_size if location and location.database.exists() else 0
    free = shutil.disk_usage(_find_nearest_directory(context.settings.home)).free
    found = f"{free / 1e9:.1f} GB free for {context.settings.home}"
    if free < size + MIN_FREE_BYTES:
        needed = f"an index run needs {(size + MIN_FREE_BYTES) / 1e9:.1f} GB temporarily"
        yield report_problem("disk space", f"{found}; {needed}", SPACE_HINT)
    elif free < 2 * size + COMFORTABLE_FREE_BYTES:
        yield report_warning("disk space", found, SPACE_HINT)
    else:
        yield report_ok("disk space", found)


def check_extensions(_: CheckContext) -> Iterator[CheckResult]:
    """Check that the DuckDB extensions, which `lineage sql` and notebooks use, can be loaded."""
    for name in duckdb_engine.EXTENSIONS:
        try:
            version = duckdb_engine.try_extension(name)
        except duckdb_engine.MissingExtension as error:
            yield report_problem(f"extension {name}", error.message, error.hint)
        else:
            yield report_ok(f"extension {name}", f"version {version}")


def check_index(context: CheckContext) -> Iterator[CheckResult]:
    """Check that the index can be read completely, is consistent and up to date. Also check its vector index."""
    location = context.location
    if location is None or context.repository is None:
        return
    if not location.has_database():
        yield report_ok("index", "none yet", "`lineage index` creates it.")
        return
    if not all((location.folder / name).exists() for name in (GATE_LOCK, INDEX_LOCK)):
        yield report_warning(
            "index", "not opened: its lock files are missing", "Run `lineage status` to create them."
        )
        return
    task = (context.path, location, INDEX_TIMEOUT_SECONDS)
    try:
        # Some damage crashes DuckDB, so a worker process reads the index. `jobs=1` would start none.
        (results,) = map_groups(_read_index, [[task]], jobs=2, prefer="processes")
    except WorkerDied as error:
        cause = str(error.__cause__)
        if "SIGKILL" in cause:  # the system sends it if memory runs out
            raise OutOfMemory from error
        if not any(name in cause for name in CRASH_SIGNALS):
            raise
        yield report_problem("index", "damaged: DuckDB crashed while it read the index", REBUILD_HINT)
    else:
        yield from results


def _read_index(task: tuple[Path, IndexLocation, float]) -> list[CheckResult]:
    """Check what the index holds, in a worker process. `task`: path, location, and seconds to wait for the index."""
    faulthandler.disable()  # joblib enables it, and a crash would print a stack trace
    path, location, timeout_seconds = task
    with database.open_for_reading(location, wait=timeout_seconds) as connection:
        results = list(_check_content(open_repository(path), location, connection))
        return [*results, _check_vector_index(location, connection)]


def _check_vector_index(location: IndexLocation, connection: Connection) -> CheckResult:
    """Check the optional HNSW index, and say how queries search the vectors."""
    if not location.hnsw.exists():
        return report_ok("vector index", "none; queries scan all vectors")
    from stores import vector_search

    hnsw = vector_search.load_hnsw_index(connection, location.hnsw)
    if hnsw is None:
        remedy = "Run `lineage index --vector-index hnsw` to write it again, or `--vector-index none` to delete it."
        return report_warning(
            "vector index", f"{location.hnsw} cannot be read; queries scan all vectors", remedy
        )
    hnsw.close()
    if hnsw.is_stale:
        found = f"HNSW, but {hnsw.stale_share:.0%} of the texts have changed; queries scan all vectors"
        return report_warning("vector index", found, "Run `lineage index` to write it again.")
    texts = f"{len(hnsw.digests) - len(hnsw.new_rows):,} of {len(hnsw.digests):,} texts"
    return report_ok(
        "vector index", f"HNSW of {texts}, for queries without filters; queries with filters scan all vectors"
    )


def check_commit_graph(context: CheckContext) -> Iterator[CheckResult]:
    """Check that the commit-graph next to the index, if there is one, is not damaged."""
    if context.location is None:
        return
    graph_dir = context.location.git_directory
    file = commit_graph.get_graph_file(graph_dir)
    if commit_graph.is_damaged(graph_dir):
        found = f"{file} is damaged; git reads the history without it, more slowly"
        yield report_warning("commit-graph", found, "Run `lineage index` to write it again.")
    elif file.exists():
        yield report_ok("commit-graph", "intact")


def check_locks(context: CheckContext) -> Iterator[CheckResult]:
    """List the processes that use the index."""
    if context.location is None or not context.location.folder.exists():
        return
    runs = find_lock_holders(context.location.folder / RUN_LOCK)
    users = [
        holder
        for holder in find_lock_holders(context.location.folder / INDEX_LOCK)
        if holder.pid not in {run.pid for run in runs}
    ]
    usages = [f"an index run: {run}" for run in runs] + [f"open in {user}" for user in users]
    yield report_ok("locks", "; ".join(usages) or "no process uses the index")


def check_write_ahead_log(context: CheckContext) -> Iterator[CheckResult]:
    """Check for a write-ahead log that has no index, or that is large while no index run uses it."""
    location = context.location
    if location is None or not location.wal.exists():
        return
    size_bytes = location.wal.stat().st_size
    size = f"{size_bytes / 1e6:.1f} MB"
    if not location.has_database():
        yield report_warning("write-ahead log", f"{location.wal} ({size}) has no index", REBUILD_HINT)
    elif size_bytes > MAX_OPEN_WAL_BYTES and not find_lock_holders(location.folder / RUN_LOCK):
        found = f"{size}, replayed every time the index is opened"
        yield report_warning("write-ahead log", found, "Run `lineage index` to merge it into the index.")
    else:
        yield report_ok("write-ahead log", f"{size}, from the last batches")


def _check_content(
    repository: Repository, location: IndexLocation, connection: Connection
) -> Iterator[CheckResult]:
    rows = maintenance.read_all_rows(connection)
    inconsistencies = maintenance.find_broken_invariants(connection)
    if inconsistencies:
        examples = ", ".join(
            f"{count:,} {description}" for description, count in list(inconsistencies.items())[:MAX_NAMED]
        )
        yield report_problem("index", f"opens, but is inconsistent: {examples}", REBUILD_HINT)
        return
    summary = history.load_index_summary(connection)
    counts = (
        f"{format_count(summary.commits, 'commit')}, {format_count(summary.hunks, 'hunk')}; "
        if summary
        else ""
    )
    yield report_ok("index", f"{counts}{format_count(rows, 'row')} read, all intact")
    yield from _check_status(repository, location, connection)


def _check_status(
    repository: Repository, location: IndexLocation, connection: Connection
) -> Iterator[CheckResult]:
    status = index_status.load_index_status(repository, connection, location=location)
    yield from _check_freshness(status)
    unreadable = history.load_unreadable_commits(connection)
    if unreadable:
        check_objects(repository.objects_dir)  # raises StorageError for objects without read permission
        names = ", ".join(entry.commit_sha[:SHA_DIGITS] for entry in unreadable[:MAX_NAMED])
        yield report_warning(
            "unreadable",
            f"{len(unreadable):,} not indexed: {names}{', ...' if len(unreadable) > MAX_NAMED else ''}",
            describe_unreadable_remedy(unreadable, is_partial_clone=repository.is_partial_clone),
        )


def _check_freshness(status: IndexStatus) -> Iterator[CheckResult]:
    """Check that the index is compatible with this program and up to date with HEAD.

    Compatibility is checked only after the first index run has ended, the rest only while no index run is active.
    """
    is_first_run = status.verdict is not None and status.verdict.has_no_finished_run
    if status.verdict is not None and not is_first_run:
        yield _check_compatibility(status.verdict)
    if status.is_run_active:
        yield report_ok("freshness", "an index run is at work")
        return
    if is_first_run:
        yield report_warning(
            "freshness", f"the {describe_unfinished_run(status)}", f"Run `{RESUME_COMMAND}` to continue."
        )
        return
    if status.commits_behind:
        yield report_warning(
            "freshness",
            f"{format_count(status.commits_behind, 'commit')} behind HEAD",
            "Run `lineage index --incremental` to index them.",
        )
    if status.vector_share < 1:
        yield report_warning(
            "vectors",
            describe_vector_share(status.vector_share),
            f"Run `{RESUME_COMMAND}` to embed the others.",
        )


def _check_compatibility(verdict: CompatibilityVerdict) -> CheckResult:
    if verdict.status is CompatibilityStatus.COMPATIBLE:
        return report_ok("compatibility", str(verdict))
    create_result = report_problem if verdict.status is CompatibilityStatus.NEEDS_REBUILD else report_warning
    remedy = f"Run `{verdict.remedy}`." if verdict.remedy else ""
    return create_result("compatibility", str(verdict), remedy)
