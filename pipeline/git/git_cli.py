"""Runner of the git program, without pager, prompt, hooks, external diffs, filters and network.

libgit2 does almost all reading. The git program is used where it is faster (its blame is ten times as fast) or where
libgit2 lacks the function. Settings for interactive work, of the repository or of the user, are overridden.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import IO, Any, Final, TypeVar

from pipeline import interrupts
from pipeline.git.errors import UnsupportedRepository, build_blocking_file_error
from stores.errors import LineageError

Result = TypeVar("Result")

# Environment variables that replace the inherited ones.
ENVIRONMENT: Final = {
    "LC_ALL": "C",  # error messages are parsed
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",  # prints no password
    "GIT_PAGER": "cat",
    "GIT_OPTIONAL_LOCKS": "0",  # otherwise reading the index rewrites it
    "GIT_NO_LAZY_FETCH": "1",  # otherwise git fetches missing objects of a partial clone
    "GIT_ALLOW_PROTOCOL": "none",  # prevents the fetch in git versions without GIT_NO_LAZY_FETCH
    "GIT_LITERAL_PATHSPECS": "1",  # no wildcards or pathspec magic in paths
    # Read the recorded history, as libgit2 does, without `git replace` and grafts.
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": os.devnull,
}
# Environment variables that make git ignore the configuration files of the user and the system.
NO_USER_CONFIG: Final = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
# Settings that are passed in environment variables. So they override all configuration files.
CONFIGURATION: Final = {
    "advice.graftFileDeprecated": "false",  # otherwise git prints it before an error, because of GIT_GRAFT_FILE
    "core.fsmonitor": "false",  # may name a program
    "core.pager": "cat",
    "core.quotePath": "false",  # print paths unquoted where possible
    "core.hooksPath": os.devnull,
    "diff.external": "",
    "log.showSignature": "false",  # would run gpg
}
# Commands that run without git's index, because a damaged index would make them fail. They would read only attributes
# from the index.
COMMANDS_WITHOUT_INDEX: Final = frozenset({"diff-tree"})
# Commands that read only objects and refs. They run even if a file that other commands read, such as a mailmap, would
# make git wait or exhaust the memory.
OBJECT_COMMANDS: Final = frozenset(
    ("commit-graph", "for-each-ref", "ls-tree", "merge-base", "name-rev", "rev-list", "rev-parse")
)
# First version of git with GIT_CONFIG_COUNT, which passes CONFIGURATION.
MINIMUM_VERSION: Final = (2, 31)

# Default time limit of `GitProgram.run`. git takes exponential time to match some ignore and attribute patterns, but
# lists a large repository in seconds.
RUN_TIMEOUT_SECONDS: Final = 300.0
# Interval of the checks for a cancelled request while git runs.
CANCEL_POLL_SECONDS: Final = 0.1


# Matches the start of each of git's messages.
_MESSAGE_START: Final = re.compile(r"\s*^(?:fatal|error): ", re.MULTILINE)
# Matches git's messages about a setting that it rejects.
_REJECTED_SETTING: Final = re.compile(
    r"^fatal: (?:bad (?:\w+ )?config (?:file|line|value|variable) |failed to expand user dir in: "
    r"|bad zlib compression level |invalid mode for object creation: |unknown date format )",
    re.MULTILINE,
)
# Matches git's message about `extensions.*` settings of a newer git. Each name is on a line of its own.
_UNKNOWN_EXTENSION: Final = re.compile(
    r"^fatal: unknown repository extensions? found:((?:\s+\S+)+)", re.MULTILINE
)

# Processes that `kill_running` kills.
_running_processes: Final[set[subprocess.Popen[bytes]]] = set()


class GitNotFound(LineageError):
    """There is no git program on PATH."""

    def __init__(self) -> None:
        super().__init__("git was not found.", hint="Install git, or put it on PATH.")


class UnreadableGitConfig(LineageError):
    """git cannot list its settings, or rejects one, so lineage cannot disable the programs that settings name."""

    def __init__(self, reason: str) -> None:
        messages = _MESSAGE_START.sub("; ", reason).removeprefix("; ")
        super().__init__(
            f"git cannot read its configuration: {' '.join(messages.split())}",
            hint="Correct it. `git config --list --show-origin` lists the settings and their files, or says why not.",
        )


class TooLongForGit(LineageError):
    """The arguments are longer than the system allows for a program."""

    def __init__(self) -> None:
        super().__init__(
            "The request is too long to run git with it.",
            hint="Give a shorter name, path or range, or fewer lines.",
        )


class UnusableDirectory(LineageError):
    """git cannot run in the work tree or git directory, for example because it was deleted."""

    def __init__(self, directory: Path, reason: str) -> None:
        super().__init__(
            f"git cannot run in {directory}: {reason}.",
            hint="Restore the directory, or move to another work tree of the repository.",
        )


class GitTimeout(LineageError):
    """The git program took too long and was killed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"git did not finish within {seconds:.0f} seconds.",
            hint="Run `git fsck` to look for damage. Patterns with many `**` in ignore files also take long.",
        )


def read_version() -> str:
    """Return the version of the installed git, such as `2.43.0` or `2.39.5 (Apple Git-154)`. Raises GitNotFound."""
    environment = os.environ | NO_USER_CONFIG  # git fails if it cannot read the user's configuration
    try:
        process = subprocess.run(
            ["git", "--version"], capture_output=True, check=False, stdin=subprocess.DEVNULL, env=environment
        )
    except OSError as error:
        raise GitNotFound from error
    return process.stdout.decode("utf-8", "replace").strip().removeprefix("git version ")


def parse_version(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: `2.39.5 (Apple Git-154)` as (2, 39, 5)."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition(" ")[0]))


@dataclass(frozen=True, slots=True)
class GitProgram:
    """The git program for one repository.

    `root`: the work tree; None for a bare repository. `objects_dir`: object directory of the repository.
    `filter_settings`: names of `filter.*` settings to disable.
    `commit_graph_dir`: object directory with only a commit-graph, which git then uses; None if there is none.
    `replacement_config`: settings to use instead of the user and system configuration; None uses that configuration.
    `timeout_seconds`: time limit of `run`; None for RUN_TIMEOUT_SECONDS.
    `blocking_file`: file that would block commands other than OBJECT_COMMANDS, and the setting that names it (empty if
    none does); None if there is no such file.
    """

    git_dir: Path
    root: Path | None
    objects_dir: Path
    filter_settings: tuple[str, ...] = ()
    commit_graph_dir: Path | None = None
    replacement_config: tuple[tuple[str, str], ...] | None = None
    timeout_seconds: float | None = None
    blocking_file: tuple[Path, str] | None = None

    @contextmanager
    def start(
        self, *arguments: str | bytes, stdin: bytes | None = None, without_index: bool = False
    ) -> Iterator[GitProcess]:
        """Run git during the body of the `with` statement, and kill it at the end if it still runs.

        `without_index`: git runs as if it had no index file. Raises GitNotFound if there is no git program,
        UnusableDirectory if git cannot run in its directory, DamagedRepository if a file would block git, and
        TooLongForGit if the arguments are too long.
        """
        if self.blocking_file and arguments[0] not in OBJECT_COMMANDS:
            raise build_blocking_file_error(*self.blocking_file)
        directory = self.root or self.git_dir
        location_options = [f"--git-dir={self.git_dir}", *([f"--work-tree={self.root}"] if self.root else [])]
        environment = dict(self.build_environment())
        if without_index or arguments[0] in COMMANDS_WITHOUT_INDEX:
            environment["GIT_INDEX_FILE"] = str(self.git_dir / "no-index")
        try:
            process = subprocess.Popen(
                [b"git", b"--no-pager", *map(os.fsencode, (*location_options, *arguments))],
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0,  # so that its child processes are killed with it
            )
        except OSError as error:
            if error.filename == directory:
                raise UnusableDirectory(directory, error.strerror or str(error)) from error
            if error.errno == errno.ENOENT:
                raise GitNotFound from error
            if error.errno == errno.E2BIG:
                raise TooLongForGit from error
            raise
        _running_processes.add(process)
        with process, _feed_stdin(process, stdin or b""):
            try:
                yield GitProcess(process)
            finally:
                _running_processes.discard(process)
                if process.poll() is None:
                    _kill(process)

    def run(
        self, *arguments: str | bytes, stdin: bytes | None = None, timeout_seconds: float | None = None
    ) -> GitOutput:
        """Run git until it ends. Raises GitTimeout after `timeout_seconds`; None for the time limit of this program."""
        with self.start(*arguments, stdin=stdin) as git_process:
            return git_process.wait(timeout_seconds or self.timeout_seconds or RUN_TIMEOUT_SECONDS)

    def build_environment(self) -> Mapping[str, str]:
        """Return the environment variables for git: the inherited variables except GIT_*, and the overrides."""
        inherited_variables = {
            name: value for name, value in os.environ.items() if not name.startswith("GIT_")
        }
        disabled_filters = [
            (name, "false" if name.endswith(".required") else "") for name in self.filter_settings
        ]
        settings = [*(self.replacement_config or ()), *CONFIGURATION.items(), *disabled_filters]
        return (
            inherited_variables
            | ENVIRONMENT
            | self._build_config_file_variables()
            | _build_config_variables(settings)
            | self._build_commit_graph_variables()
        )

    def _build_config_file_variables(self) -> dict[str, str]:
        if self.replacement_config is None:
            return {}
        return NO_USER_CONFIG

    def _build_commit_graph_variables(self) -> dict[str, str]:
        # git uses the first commit-graph that it finds, and the graph of `git gc` has no changed-path filters. So make
        # `commit_graph_dir` the main object directory, and the repository's own directory an alternate.
        if self.commit_graph_dir is None or not self.commit_graph_dir.is_dir():
            return {}
        return {
            "GIT_OBJECT_DIRECTORY": str(self.commit_graph_dir),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quote_path(str(self.objects_dir)),
        }


@dataclass(frozen=True, slots=True)
class GitOutput:
    """Output of a git process that has ended."""

    stdout: bytes
    stderr: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class GitProcess:
    """Started process of the git program."""

    process: subprocess.Popen[bytes]

    def wait(self, timeout_seconds: float | None = None) -> GitOutput:
        """Wait until git ends, and return its output.

        Raises GitTimeout after `timeout_seconds`, RequestCancelled soon after the request is cancelled,
        UnreadableGitConfig if git rejects a setting, and UnsupportedRepository if git is too old for the repository.
        `timeout_seconds`: None for no limit.
        """
        deadline = time.monotonic() + (inf if timeout_seconds is None else timeout_seconds)
        while True:
            interrupts.check_cancelled()
            wait_seconds = min(CANCEL_POLL_SECONDS, deadline - time.monotonic())
            try:
                stdout, stderr = self.process.communicate(timeout=wait_seconds)
                break
            except subprocess.TimeoutExpired as error:
                if time.monotonic() >= deadline:
                    raise GitTimeout(timeout_seconds or 0) from error
        output = GitOutput(stdout, stderr.decode("utf-8", "replace").strip(), self.process.returncode)
        if output.exit_code and _REJECTED_SETTING.search(output.stderr):
            raise UnreadableGitConfig(output.stderr)
        if output.exit_code and (match := _UNKNOWN_EXTENSION.search(output.stderr)):
            raise UnsupportedRepository(
                f"git is too old for this repository: it does not know the extension {', '.join(match[1].split())}.",
                hint="Put a newer git on PATH.",
            )
        return output


def kill_running() -> None:
    """Kill the git processes of all threads. Call this before an exit that does not wait for the threads."""
    for process in tuple(_running_processes):
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a git process and its child processes."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()


@contextmanager
def _feed_stdin(process: subprocess.Popen[bytes], data: bytes) -> Iterator[None]:
    """Write the input of a process in a thread during the body, so that input and output cannot block each other."""
    # Remove the pipe from the process object, because the object would close the pipe while the thread writes.
    stdin, process.stdin = process.stdin, None
    if stdin is None:
        yield
        return
    writer_thread = threading.Thread(
        target=_write_and_close, args=(stdin, data), name="git-input", daemon=True
    )
    try:
        writer_thread.start()
    except BaseException:  # without the thread, git would wait for its input forever
        stdin.close()
        _kill(process)
        raise
    try:
        yield
    finally:
        # The process has ended, so a pending write fails and the thread ends.
        writer_thread.join()


def _write_and_close(pipe: IO[bytes], data: bytes) -> None:
    with suppress(BrokenPipeError), pipe:
        pipe.write(data)


def _build_config_variables(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the environment variables that pass settings to git, which needs MINIMUM_VERSION for them."""
    # `-c name=value` would not work for filters whose names contain an equals sign.
    pairs = list(enumerate(settings))
    keys = {f"GIT_CONFIG_KEY_{number}": name for number, (name, _) in pairs}
    values = {f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in pairs}
    return {"GIT_CONFIG_COUNT": str(len(pairs)), **keys, **values}


def _quote_path(path: str) -> str:
    """Quote a path for the colon-separated list of GIT_ALTERNATE_OBJECT_DIRECTORIES."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


_runs_lock: Final = threading.Lock()
# For each key, the run that has not started yet and that other threads may join.
_pending_runs: Final[dict[Hashable, Future[Any]]] = {}
# For each key, the run that has started and not ended.
_running_runs: Final[dict[Hashable, Future[Any]]] = {}


def run_shared(key: Hashable, function: Callable[[], Result]) -> Result:
    """Return the result of a function, or raise its error. Waiting threads with the same key share one run of it.

    So simultaneous requests start git only once. This matters because some ignore patterns keep git busy until the time
    limit. A thread does not join a run that has already started, because that run may miss a change made before this
    call. If the request of the thread that runs the function is cancelled, another thread runs it.
    """
    while True:
        own_future: Future[Result] = Future()
        with _runs_lock:
            future: Future[Result] = _pending_runs.setdefault(key, own_future)
        if future is own_future:
            return _run_next(key, future, function)
        _wait_for(future)
        error = future.exception()
        if error is None or (
            isinstance(error, Exception) and not isinstance(error, interrupts.RequestCancelled)
        ):
            return future.result()
        # The thread that ran the function was cancelled or interrupted, but not this one: try again.


def _run_next(key: Hashable, future: Future[Result], function: Callable[[], Result]) -> Result:
    """Run the function after the run that has already started, if there is one."""
    try:
        while running := _running_runs.get(key):
            _wait_for(running)
        with _runs_lock:
            del _pending_runs[key]
            _running_runs[key] = future
        result = function()
    except BaseException as error:
        _remove_run(key, future)
        future.set_exception(error)
        raise
    _remove_run(key, future)
    future.set_result(result)
    return result


def _remove_run(key: Hashable, future: Future[Any]) -> None:
    with _runs_lock:
        for runs in (_pending_runs, _running_runs):
            if runs.get(key) is future:
                del runs[key]


def _wait_for(future: Future[Any]) -> None:
    while not wait([future], CANCEL_POLL_SECONDS).done:
        interrupts.check_cancelled()


@dataclass(frozen=True, slots=True)
class SharedGitRunner:
    """Git program for several threads, which share a run if they need the same command in the same work tree."""

    program: GitProgram

    @property
    def git_dir(self) -> Path:
        """The git directory of the work tree."""
        return self.program.git_dir

    @property
    def root(self) -> Path | None:
        """The root of the work tree; None for a bare repository."""
        return self.program.root

    def run(self, *arguments: str | bytes, stdin: bytes | None = None) -> GitOutput:
        """Run a git command, with `stdin` as its input, until it exits."""
        return run_shared((self.program, arguments, stdin), lambda: self.program.run(*arguments, stdin=stdin))
