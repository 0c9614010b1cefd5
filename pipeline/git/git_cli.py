"""The git program, run so that nothing but its answer comes of it.

libgit2 reads almost everything; blame is the exception, being ten times slower there. What a repository or a
person has configured for work at a terminal must not act when a program asks: no pager, no prompt, no external
program over a file's content, no network, nothing written.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from stores.errors import LineageError

ENVIRONMENT: Final = {
    "LC_ALL": "C",  # its complaints are read by this program
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",  # answers nothing
    "GIT_PAGER": "cat",
    "GIT_OPTIONAL_LOCKS": "0",  # or a look at the index would write it anew
    "GIT_NO_LAZY_FETCH": "1",  # a partial clone stays partial
    "GIT_ALLOW_PROTOCOL": "none",  # the same for versions of git that do not know the line above
    "GIT_LITERAL_PATHSPECS": "1",  # a path is a name, whatever stars and colons are in it
}
# The last word in configuration: it wins over every file, conditional ones included.
CONFIGURATION: Final = {
    "core.fsmonitor": "false",  # may name a program
    "core.pager": "cat",
    "core.quotePath": "false",  # a path's bytes as they are, where they can be
    "core.hooksPath": os.devnull,
    "diff.external": "",
    "log.showSignature": "false",  # would run gpg
}


# The first version that takes configuration from numbered variables: see `_configured`.
OLDEST: Final = (2, 31)


class GitMissing(LineageError):
    """There is no git program on PATH."""

    def __init__(self) -> None:
        super().__init__("git was not found.", hint="Install git, or put it on PATH.")


class GitTooSlow(LineageError):
    """The git program took longer than it was given, and was ended."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"git was ended after {seconds:.0f} seconds.", hint="`git fsck` says what is damaged."
        )


def version() -> str:
    """What the program says of itself: `2.43.0`, or more words than that; GitMissing where there is none."""
    try:
        done = subprocess.run(
            ["git", "--version"], capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise GitMissing from error
    return done.stdout.decode("utf-8", "replace").strip().removeprefix("git version ")


def numbered(version: str) -> tuple[int, ...]:
    """The numbers that a version starts with."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition(" ")[0]))


@dataclass(frozen=True, slots=True)
class Git:
    """How the git program is to see one repository.

    `root` is its work tree, None for a bare one. `objects` is where it keeps its objects, and `graph` an object
    directory that holds nothing but a commit-graph of ours, lent to git in front of them. `filters` are the
    settings that name programs a file passes through on its way into git: they are emptied. `instead` are the
    settings to go by where the person's own and the system's would keep git from working; None: go by those.
    """

    git_dir: Path
    root: Path | None
    objects: Path
    filters: tuple[str, ...] = ()
    graph: Path | None = None
    instead: tuple[tuple[str, str], ...] | None = None

    @contextmanager
    def started(self, *arguments: str | bytes, given: bytes | None = None) -> Iterator[Running]:
        """The program at work while the body runs; it does not outlive the body, and reads what it is given."""
        place = [f"--git-dir={self.git_dir}", *([f"--work-tree={self.root}"] if self.root else [])]
        try:
            process = subprocess.Popen(
                [b"git", b"--no-pager", *map(os.fsencode, (*place, *arguments))],
                cwd=self.root or self.git_dir,
                env=self.environment(),
                stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0,  # so that it can be ended together with what it started
            )
        except FileNotFoundError as error:
            raise GitMissing from error
        with process, _fed(process, given or b""):
            try:
                yield Running(process)
            finally:
                if process.poll() is None:
                    _end(process)

    def output(
        self, *arguments: str | bytes, given: bytes | None = None, limit: float | None = None
    ) -> Finished:
        """What the program says, waited for; GitTooSlow after so many seconds."""
        with self.started(*arguments, given=given) as running:
            return running.finished(limit)

    def environment(self) -> Mapping[str, str]:
        """The person's own environment, less every word to git in it, and ours."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        emptied = [(name, "false" if name.endswith(".required") else "") for name in self.filters]
        settings = [*(self.instead or ()), *CONFIGURATION.items(), *emptied]
        return kept | ENVIRONMENT | self._unread() | _configured(settings) | self._lent()

    def _unread(self) -> dict[str, str]:
        return {} if self.instead is None else {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

    def _lent(self) -> dict[str, str]:
        # Before the repository's own objects, because git takes the first commit-graph it meets, and the one
        # that `git gc` leaves has no changed-path filters.
        if self.graph is None or not self.graph.is_dir():
            return {}
        return {
            "GIT_OBJECT_DIRECTORY": str(self.graph),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(str(self.objects)),
        }


@dataclass(frozen=True, slots=True)
class Finished:
    """What the program left: its answer, its complaints, its exit status."""

    out: bytes
    complaint: str
    code: int


@dataclass(frozen=True, slots=True)
class Running:
    """The program at work."""

    process: subprocess.Popen[bytes]

    def finished(self, limit: float | None = None) -> Finished:
        """Its answer, waited for; GitTooSlow after so many seconds."""
        try:
            out, err = self.process.communicate(timeout=limit)
        except subprocess.TimeoutExpired as error:
            raise GitTooSlow(error.timeout) from error
        return Finished(out, err.decode("utf-8", "replace").strip(), self.process.returncode)


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()


@contextmanager
def _fed(process: subprocess.Popen[bytes], given: bytes) -> Iterator[None]:
    """Hand the process its input while the body runs: through a pipe, since a disk may be full."""
    # Taken from the process, which would close it under the thread.
    pipe, process.stdin = process.stdin, None
    if pipe is None:
        yield
        return
    feeder = threading.Thread(target=_feed, args=(pipe, given), name="git-input", daemon=True)
    feeder.start()
    try:
        yield
    finally:
        # The process has ended by now, and whatever it did not read is refused.
        feeder.join()


def _feed(pipe: IO[bytes], given: bytes) -> None:
    with suppress(BrokenPipeError), pipe:
        pipe.write(given)


def _configured(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    # Not `-c name=value`: a filter's name may have an equals sign in it. git knows these since 2.31.
    pairs = list(enumerate(settings))
    keys = {f"GIT_CONFIG_KEY_{number}": name for number, (name, _) in pairs}
    values = {f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in pairs}
    return {"GIT_CONFIG_COUNT": str(len(pairs)), **keys, **values}


def _quoted(path: str) -> str:
    """A path in a list that colons divide."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
