"""git's hook files, with our block in them: put in, renewed, taken out; the rest of a hook is left as it is."""

from __future__ import annotations

import os
import re
from pathlib import Path
from shlex import quote
from typing import Final

from pipeline.git.repository import Repository
from serve.initializing.block import BLOCK, FENCES, SHEBANG
from serve.initializing.changes import Change
from serve.initializing.fences import BrokenFence
from serve.initializing.folders import contains
from serve.replacing import content_of
from stores.errors import LineageError

# Shells that read the block as it is meant; csh and fish do not.
SHELLS: Final = frozenset({"sh", "ash", "bash", "dash", "ksh", "ksh93", "mksh", "oksh", "yash", "zsh"})
# What --force replaced lies beside it under this ending, which git does not run, until --remove brings it back.
ASIDE: Final = ".before-lineage"


class HookRefused(LineageError):
    """A hook that cannot take the block."""


def installed(file: Path, repository: Repository) -> Change:
    """The hook with our block in it, made where there is none; HookRefused when it cannot take one."""
    before = _taken(file, repository)
    if before is None:
        return Change(file.name, file, "created", SHEBANG + BLOCK + b"\n", executable=True)
    after = _with_block(file, before)
    ours_alone = _is_ours_alone(FENCES.removed(after))
    if not os.access(file, os.X_OK) and not ours_alone:
        raise HookRefused(
            f"{file} may not be executed, so git does not run it, and would not run lineage's part of it.",
            hint=f"Switch it on with `chmod +x {quote(str(file))}` if that is what you want; `--force` puts a hook of "
            "lineage's alone in its place.",
        )
    if after == before and os.access(file, os.X_OK):
        return Change(file.name, file, "unchanged")
    said = "renewed" if FENCES.encloses(before) else "added"
    return Change(file.name, file, said, after, executable=ours_alone)


def forced(file: Path, repository: Repository) -> Change:
    """A hook of ours alone in the place of one that lacks our block; what was there is kept beside it."""
    if not os.path.lexists(file) or _has_block(file):
        return installed(file, repository)
    aside = file.with_name(file.name + ASIDE)
    if os.path.lexists(aside):
        raise HookRefused(
            f"{aside} is there already, from an earlier --force.",
            hint="Move it away, or delete it if nobody needs it any more.",
        )
    kept = f"what was there is now {aside.name}; --remove brings it back"
    return Change(
        file.name, file, "replaced", SHEBANG + BLOCK + b"\n", executable=True, aside=aside, notes=(kept,)
    )


def removed(file: Path, repository: Repository) -> Change:
    """The hook without our block, or no hook where nothing else is in it."""
    if not file.is_file() or not contains(repository, file):
        return Change(file.name, file, "not there")
    before = content_of(file) or b""
    if not FENCES.encloses(before):
        return Change(file.name, file, "not there")
    after, aside = FENCES.removed(before), file.with_name(file.name + ASIDE)
    if not _is_ours_alone(after) or file.is_symlink():
        return Change(file.name, file, "taken out", after)
    if os.path.lexists(aside):
        return Change(file.name, file, "brought back", back=aside)
    return Change(file.name, file, "deleted", gone=True)


def _taken(file: Path, repository: Repository) -> bytes | None:
    """What is in the hook, where it may be written to; None where there is none."""
    if not os.path.lexists(file):
        return None
    if not contains(repository, file):
        raise HookRefused(
            f"{file} is a link to {os.path.realpath(file)}, outside this repository: others may use it too.",
            hint='Put the hook itself in the link\'s place, or add "lineage index --incremental" to it by hand; '
            "`--force` puts a hook of lineage's alone there.",
        )
    if not file.is_file():
        raise HookRefused(
            f"{file} is no file, or a link to none.", hint="Take it away and run `lineage init` again."
        )
    return content_of(file)


def _with_block(file: Path, text: bytes) -> bytes:
    try:
        if FENCES.encloses(text):
            return FENCES.renewed(text, BLOCK)
    except BrokenFence as broken:
        raise HookRefused(f"{file}: {broken.message}.", hint=f"{broken.hint}.".capitalize()) from broken
    first, _, _ = text.partition(b"\n")
    if not text.startswith(b"#!"):
        _refuse_binary(file, text)
        return FENCES.added(text, BLOCK, at=0)  # git runs what names no interpreter with sh
    _refuse_interpreter(file, first)
    return FENCES.added(text, BLOCK, at=min(len(first) + 1, len(text)))


def _refuse_interpreter(file: Path, first: bytes) -> None:
    if first.endswith(b"\r"):
        raise HookRefused(
            f"{file} has Windows line ends: the system looks for an interpreter of that name and finds none.",
            hint="Convert it, for example with `sed -i 's/\\r$//'`; `--force` puts a hook of lineage's alone there.",
        )
    if interpreter(first) not in SHELLS:
        raise HookRefused(
            f"{file} is run by {first[2:].strip().decode('utf-8', 'replace')}, which reads no shell block.",
            hint='Start "lineage index --incremental" from it yourself, or make it a shell script that calls it; '
            "`--force` puts a hook of lineage's alone there and keeps this one beside it.",
        )


def _refuse_binary(file: Path, text: bytes) -> None:
    if b"\0" in text:
        raise HookRefused(
            f"{file} is a program, no script.",
            hint="Give it another name and call it from a shell script; `--force` puts a hook of lineage's alone "
            "there and keeps this one beside it.",
        )


def interpreter(first: bytes) -> str:
    """The program that a `#!` line names, found through `env` too."""
    words = first[2:].decode("utf-8", "replace").split()
    name = Path(words[0]).name if words else ""
    if name != "env":
        return name
    named = [word for word in words[1:] if not re.match(r"-|\w+=", word)]
    return Path(named[0]).name if named else ""


def _has_block(file: Path) -> bool:
    try:
        return file.is_file() and FENCES.encloses(content_of(file) or b"")
    except BrokenFence:
        return False


def _is_ours_alone(rest: bytes) -> bool:
    """Whether what is left beside our block is nothing, or the first line that we write."""
    return rest in (b"", SHEBANG)
