"""What our hooks run: a shell block, the same one for all of them, for any POSIX shell.

It goes to the top of a hook, because hooks end with `exit` or `exec` as they like, and it leaves the shell that
the rest of the hook runs in as it was: everything happens in a subshell. That subshell ends at once, so the hook
has no child to wait for, and neither has git.

Where git looks for a repository's hooks, and what lies inside the repository.

Nothing outside it is written to. A folder of hooks that many repositories share would start an index of each of
them; a file that a link leads to may be anybody's.

git's hook files, with our block in them: put in, renewed, taken out; the rest of a hook is left as it is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from shlex import quote
from typing import Final

from pipeline.git.repository import Repository
from serve.setup.file_edit import BrokenFence, Change, Fences, content_of
from stores.errors import LineageError

FENCES: Final = Fences(
    b"# >>> lineage managed (do not edit) >>>",
    b"# <<< lineage managed <<<",
    breaks=1,
    eol=b"\n",  # whatever the hook's other lines end with: a shell reads no other
)
SHEBANG: Final = b"#!/bin/sh\n"

# Each of git's hooks that tells of another HEAD.
HOOKS: Final = ("post-commit", "post-merge", "post-checkout", "post-rewrite")

# - No nohup: on macOS it fails where there is no console; ignoring HUP is what it does. setsid, where there is
#   one, keeps the run out of what a terminal or an agent kills together with git. On Linux a session has its own
#   share of the processors, within which nice counts: so the session's is lowered too, where the system has it.
# - `export -p` lists the names with the shell alone; a word of some variable's value may look like a name.
# - Whoever started git may wait for every descriptor it left open to be closed, not for 1 and 2 alone.
# - While a rebase picks, post-commit leaves it to post-rewrite, which ends the rebase; a post-rewrite of an
#   amended commit leaves it to the post-commit before it.
BLOCK: Final = b"""\
# >>> lineage managed (do not edit) >>>
# Brings lineage's index up to date, in the background. `lineage init --remove` takes this out again.
(
  command -v lineage >/dev/null 2>&1 || exit 0
  case ${0##*/} in
    post-commit*) [ ! -d "${GIT_DIR:-.git}/rebase-merge" ] || exit 0 ;;
    post-rewrite*) [ "${1-}" != amend ] || exit 0 ;;
    post-merge*) [ "${1-}" != 1 ] || exit 0 ;;
    post-checkout*) [ "${3-}" = 1 ] && [ "${1-}" != "${2-}" ] || exit 0 ;;
  esac
  trap '' HUP
  {
    cd "$(git rev-parse --show-toplevel)" || exit 0
    unset IFS
    set -o noglob
    for word in $(export -p); do
      case ${word%%=*} in
        *[!A-Za-z0-9_]*) ;;
        GIT_*) unset "${word%%=*}" ;;
      esac
    done
    exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
    set -- lineage index --incremental --embed-provider cpu
    command -v nice && set -- nice -n 19 "$@"
    command -v setsid && set -- setsid sh -c 'echo 19 >/proc/self/autogroup; exec "$@"' sh "$@"
    exec "$@"
  } </dev/null >/dev/null 2>&1 &
) || :
# <<< lineage managed <<<"""


class OutsideRepository(LineageError):
    """A hook, or the file for agents, lies where other repositories may use it too."""


class BareRepository(LineageError):
    """Nobody commits in a repository without a work tree, so no hook would run."""


def hooks_folder(repository: Repository) -> Path:
    """Where git looks for the hooks of this work tree; OutsideRepository when that is not in the repository."""
    if repository.is_bare:
        raise BareRepository(
            f"{repository.root} is a bare repository: nobody commits in it, so its hooks would never run.",
            hint="Run `lineage index --incremental` after each fetch or push, or `lineage init` in a work tree of it.",
        )
    said = configured(repository)
    folder = repository.common_dir / "hooks" if said is None else _meant(said, repository)
    if said == "" or not contains(repository, folder):
        raise _elsewhere(folder, said)
    return folder


def configured(repository: Repository) -> str | None:
    """`core.hooksPath`, where it is set."""
    return dict(repository.configuration).get("core.hookspath")


def contains(repository: Repository, path: Path) -> bool:
    """Whether the path, all links followed, lies in the work tree or in git's own folder."""
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(place) for place in (repository.root, repository.common_dir))


def check_own(repository: Repository, file: Path, refused: type[LineageError], *, by_hand: str) -> None:
    """Refuse a file that is anybody's, or no file; `by_hand` is what a person can add to it themselves."""
    if not contains(repository, file):
        raise OutsideRepository(
            f"{file} is a link to {os.path.realpath(file)}, outside this repository.",
            hint=f"Put a file of this repository's own there, or add {by_hand} by hand.",
        )
    if os.path.lexists(file) and not file.is_file():
        raise refused(f"{file} is no file, or a link to none.", hint="Take it away, then try again.")


def _meant(said: str, repository: Repository) -> Path:
    try:
        path = Path(said).expanduser()
    except RuntimeError:  # nobody's home
        path = Path(said)
    return repository.root / path  # where git stands when it runs a hook


def _elsewhere(folder: Path, said: str | None) -> OutsideRepository:
    because = f"core.hooksPath is '{said}'" if said is not None else "the folder is a link"
    return OutsideRepository(
        f"git looks for hooks in {folder}, outside this repository ({because}): others may use them too.",
        hint="Give this repository hooks of its own with `git config --local core.hooksPath .git/hooks` (the others "
        'then no longer run here), or call "lineage index --incremental" from your own hook. '
        "`git config --show-origin core.hooksPath` says where it is set.",
    )


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
