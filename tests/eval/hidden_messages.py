"""The scrubbed protocol: the same history with every message replaced, asked in the messages' words.

`git fast-export` writes the history as a stream, messages are replaced while it passes, `git fast-import` reads it
into a repository of its own. Authors, dates and trees stay, and so does everything else but the shas; marks, the
stream's own numbers, say which became which.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from tests.bench.programs import Failed, git
from tests.repos import Repo, environment

MESSAGE: Final = b"Change\n"
BRANCH: Final = "refs/heads/scrubbed"
# Written beside the repository's own files: `<original sha> <its sha here>` on each line.
SHAS: Final = "scrubbed-shas"

_COPIED: Final = 1 << 20


def scrub(source: Path, into: Path) -> Mapping[str, str]:
    """Make the scrubbed repository of what HEAD of `source` reaches; original sha -> its sha there."""
    Repo.create(into)
    marks = into / ".git" / "scrubbed-marks"
    originals = _passed(source, into, marks)
    made = dict(line.split() for line in marks.read_text().splitlines())
    shas = {original: made[mark] for mark, original in originals.items()}
    git(into, "symbolic-ref", "HEAD", BRANCH)
    git(into, "reset", "--quiet", "--hard")
    (into / ".git" / SHAS).write_text("".join(f"{old} {new}\n" for old, new in shas.items()))
    return shas


def shas_of(scrubbed: Path) -> Mapping[str, str]:
    """What `scrub` returned when it made this repository."""
    lines = (scrubbed / ".git" / SHAS).read_text().splitlines()
    return dict(map(str.split, lines))


def rewritten(stream: IO[bytes], out: IO[bytes]) -> dict[str, str]:
    """Copy a fast-export stream, every message replaced and one branch; mark -> original sha of each commit."""
    originals: dict[str, str] = {}
    for command, line in _lines(stream):
        if command == b"data":
            _skip(stream, int(line[5:]), out)
            continue
        if command == b"commit":
            out.write(b"commit %s\n" % BRANCH.encode())
            originals.update([_head(stream, out)])
        else:
            out.write(b"reset %s\n" % BRANCH.encode() if command == b"reset" else line)
    return originals


def _head(stream: IO[bytes], out: IO[bytes]) -> tuple[str, str]:
    """Copy a commit up to its message, and put ours in the place of that; its mark and original sha."""
    said: dict[bytes, str] = {}
    for command, line in _lines(stream):
        if command == b"data":
            _skip(stream, int(line[5:]), None)
            out.write(b"data %d\n%s" % (len(MESSAGE), MESSAGE))
            break
        said[command] = line.decode(errors="replace").split()[-1]
        # What the encoding spoke of is gone.
        if command != b"encoding":
            out.write(line)
    return said[b"mark"], said[b"original-oid"]


def _skip(stream: IO[bytes], size: int, out: IO[bytes] | None) -> None:
    """Pass over a block of data, into `out` if there is one."""
    if out:
        out.write(b"data %d\n" % size)
    while size:
        block = stream.read(min(size, _COPIED))
        if not block:
            raise Failed("git fast-export ended in the middle of its data")
        size -= len(block)
        if out:
            out.write(block)


def _lines(stream: IO[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Each line with its first word."""
    for line in iter(stream.readline, b""):
        yield line.split(maxsplit=1)[0] if line.strip() else b"", line


def _passed(source: Path, into: Path, marks: Path) -> dict[str, str]:
    """Run both programs and copy between them."""
    taken = ("fast-export", "--show-original-ids", "--reencode=no", "HEAD")
    given = ("fast-import", "--quiet", "--force", f"--export-marks={marks}")
    with _git(source, taken) as exporting, _git(into, given) as importing:
        assert exporting.stdout and importing.stdin
        originals = rewritten(exporting.stdout, importing.stdin)
    if exporting.returncode or importing.returncode:
        raise Failed(f"the history of {source} could not be scrubbed")
    return originals


def _git(repository: Path, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
