"""Copy of a repository in which every commit message is replaced (protocol `scrubbed`).

`git fast-export` writes the history as a stream. The messages are replaced in the stream, and `git fast-import` reads
it into a new repository. Authors, dates and trees stay the same; the shas change. The marks of the stream (its own
numbers for objects) connect original and new shas.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from tests.bench.programs import ProgramFailed, run_git
from tests.repos import Repo, build_environment

MESSAGE: Final = b"Change\n"
BRANCH: Final = "refs/heads/scrubbed"
# File in the `.git` folder with a line `<original sha> <new sha>` for each commit.
SHA_MAP_FILE: Final = "scrubbed-shas"

_BLOCK_BYTES: Final = 1 << 20


def hide_messages(source: Path, target: Path) -> Mapping[str, str]:
    """Create the copy of everything that HEAD of `source` reaches. Return the new sha of each original sha."""
    Repo.create(target)
    marks = target / ".git" / "scrubbed-marks"
    original_shas = _run_pipeline(source, target, marks)
    new_shas = dict(line.split() for line in marks.read_text().splitlines())
    shas = {original: new_shas[mark] for mark, original in original_shas.items()}
    run_git(target, "symbolic-ref", "HEAD", BRANCH)
    run_git(target, "reset", "--quiet", "--hard")
    (target / ".git" / SHA_MAP_FILE).write_text("".join(f"{old} {new}\n" for old, new in shas.items()))
    return shas


def load_sha_map(repository: Path) -> Mapping[str, str]:
    """Load the return value of the `hide_messages` call that created this repository."""
    lines = (repository / ".git" / SHA_MAP_FILE).read_text().splitlines()
    return dict(map(str.split, lines))


def rewrite_stream(stream: IO[bytes], out: IO[bytes]) -> dict[str, str]:
    """Copy a fast-export stream with other messages, onto one branch. Return the original sha of each mark.

    Raises `ProgramFailed` if the stream is truncated.
    """
    original_shas: dict[str, str] = {}
    for command, line in _read_lines(stream):
        if command == b"data":
            _copy_data(stream, int(line[5:]), out)
            continue
        if command == b"commit":
            out.write(b"commit %s\n" % BRANCH.encode())
            original_shas.update([_rewrite_commit(stream, out)])
        else:
            out.write(b"reset %s\n" % BRANCH.encode() if command == b"reset" else line)
    return original_shas


def _rewrite_commit(stream: IO[bytes], out: IO[bytes]) -> tuple[str, str]:
    """Copy the header of a commit and replace the message after it. Return the mark and the original sha."""
    fields: dict[bytes, str] = {}
    for command, line in _read_lines(stream):
        if command == b"data":
            _copy_data(stream, int(line[5:]), None)
            out.write(b"data %d\n%s" % (len(MESSAGE), MESSAGE))
            break
        fields[command] = line.decode(errors="replace").split()[-1]
        # The encoding applies to the original message only.
        if command != b"encoding":
            out.write(line)
    return fields[b"mark"], fields[b"original-oid"]


def _copy_data(stream: IO[bytes], size: int, out: IO[bytes] | None) -> None:
    """Copy a data block of `size` bytes, or skip it if `out` is None."""
    if out:
        out.write(b"data %d\n" % size)
    while size:
        block = stream.read(min(size, _BLOCK_BYTES))
        if not block:
            raise ProgramFailed("git fast-export ended in the middle of its data")
        size -= len(block)
        if out:
            out.write(block)


def _read_lines(stream: IO[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the first word of each line, and the line."""
    for line in iter(stream.readline, b""):
        yield line.split(maxsplit=1)[0] if line.strip() else b"", line


def _run_pipeline(source: Path, target: Path, marks: Path) -> dict[str, str]:
    """Run `git fast-export` and `git fast-import`, and rewrite the stream between them."""
    export_arguments = ("fast-export", "--show-original-ids", "--reencode=no", "HEAD")
    import_arguments = ("fast-import", "--quiet", "--force", f"--export-marks={marks}")
    with _start_git(source, export_arguments) as exporter, _start_git(target, import_arguments) as importer:
        assert exporter.stdout and importer.stdin
        original_shas = rewrite_stream(exporter.stdout, importer.stdin)
    if exporter.returncode or importer.returncode:
        raise ProgramFailed(f"git could not copy {source} without its messages")
    return original_shas


def _start_git(repository: Path, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.Popen(command, env=build_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
