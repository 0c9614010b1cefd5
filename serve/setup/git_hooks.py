"""Git hooks that update the index: the shell snippet, the hooks directory, and edits of hook files.

The snippet is the same for all hooks and runs in any POSIX shell. It is inserted at the top of a hook, because hooks
often end with `exit` or `exec`, and the rest of the hook is left as it is. It starts the index run in the background
from a subshell that exits at once, so neither the hook nor git has a child process to wait for.

Nothing outside the repository is written: a hook in a directory that several repositories share would start index runs
in all of them, and a link may lead to a file of anyone.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from shlex import quote
from typing import Final

from pipeline.git.repository import Repository
from serve.setup.file_edit import FileChange, ManagedSection, SectionMarkerError, read_file
from stores.errors import LineageError

SECTION: Final = ManagedSection(
    b"# >>> lineage managed (do not edit) >>>",
    b"# <<< lineage managed <<<",
    line_ending=b"\n",  # even in a hook with other line endings, because a shell accepts no others
)
SHEBANG: Final = b"#!/bin/sh\n"

# The git hooks that run after HEAD has changed.
HOOK_NAMES: Final = ("post-commit", "post-merge", "post-checkout", "post-rewrite")

# The reasons for each line are in serve/README.md, "Hook snippet".
HOOK_SNIPPET: Final = b"""\
# >>> lineage managed (do not edit) >>>
# Updates the lineage index in the background. `lineage init --remove` removes this section.
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

# Shells that run the snippet correctly; csh and fish do not.
SUPPORTED_SHELLS: Final = frozenset(
    {"sh", "ash", "bash", "dash", "ksh", "ksh93", "mksh", "oksh", "yash", "zsh"}
)
# A hook that --force replaces is renamed with this suffix until --remove restores it. Git does not run such files.
BACKUP_SUFFIX: Final = ".before-lineage"


class OutsideRepository(LineageError):
    """Error for a file or hooks directory that is outside the repository, where others may use it too."""


class BareRepository(LineageError):
    """Error for an operation that needs a work tree, in a repository without one."""


class UnsupportedHook(LineageError):
    """Error for an existing hook file that the snippet cannot be inserted into."""


def find_hooks_directory(repository: Repository) -> Path:
    """Return the directory where git looks for this work tree's hooks.

    Raise BareRepository if there is no work tree, OutsideRepository if the directory is outside the repository.
    """
    if repository.is_bare:
        raise BareRepository(
            f"{repository.root} is a bare repository. Nobody commits in it, so its hooks would never run.",
            hint="Run `lineage index --incremental` after each fetch or push, or run "
            '"lineage init" in a work tree.',
        )
    configured_path = read_hooks_path_setting(repository)
    if configured_path is None:
        directory = repository.common_dir / "hooks"
    else:
        directory = _resolve_hooks_path(configured_path, repository)
    if not is_inside_repository(repository, directory):
        raise _create_outside_error(repository, directory, configured_path)
    return directory


def read_hooks_path_setting(repository: Repository) -> str | None:
    """Return git's `core.hooksPath`, or None if it is not set."""
    return dict(repository.config).get("core.hookspath")


def is_inside_repository(repository: Repository, path: Path) -> bool:
    """Return whether the path, with all links resolved, is in the work tree or the git directory."""
    resolved_path = Path(os.path.realpath(path))
    return any(
        resolved_path.is_relative_to(directory) for directory in (repository.root, repository.common_dir)
    )


def is_in_work_tree(repository: Repository, path: Path) -> bool:
    """Return whether the path, with all links resolved, is in the work tree, and not in a git directory inside it."""
    resolved_path = Path(os.path.realpath(path))
    if resolved_path.is_relative_to(repository.common_dir):
        return False
    if not resolved_path.is_relative_to(repository.root):
        return False
    return all(part.lower() != ".git" for part in resolved_path.relative_to(repository.root).parts)


def check_editable(
    repository: Repository, file: Path, error_class: type[LineageError], *, content_name: str
) -> None:
    """Check that the file is missing, or a regular file of the work tree.

    Raise OutsideRepository for a link that leads out of the work tree or into a git directory, and `error_class` for a
    directory, a device or a broken link. `content_name`: what the user has to add by hand, named in the hint, such as
    "the patterns".
    """
    if not is_in_work_tree(repository, file):
        place = "in a git directory" if is_inside_repository(repository, file) else "outside this repository"
        raise OutsideRepository(
            f"{file} is a link to {os.path.realpath(file)}, {place}.",
            hint=f"Replace the link with a file of the work tree, or add {content_name} by hand.",
        )
    if os.path.lexists(file) and not file.is_file():
        raise error_class(f"{file} is not a regular file.", hint="Move it away, then try again.")


def _resolve_hooks_path(configured_path: str, repository: Repository) -> Path:
    # Git appends `/NAME` to the setting. So an empty setting means the directory `/`.
    configured_path = configured_path or "/"
    try:
        path = Path(configured_path).expanduser()
    except RuntimeError:  # `~name` of an unknown user
        path = Path(configured_path)
    return repository.root / path  # git runs a hook in the root of the work tree


def _create_outside_error(
    repository: Repository, directory: Path, configured_path: str | None
) -> OutsideRepository:
    reason = "it is a link" if configured_path is None else f"core.hooksPath is '{configured_path}'"
    message = (
        f"Git looks for hooks in {directory}, outside this repository ({reason}). Others may use them too."
    )
    default_directory = repository.common_dir / "hooks"
    is_linked_work_tree = repository.common_dir != repository.root / ".git"
    own_directory = str(default_directory) if is_linked_work_tree else ".git/hooks"
    remedy = f"Run `git config --local core.hooksPath {quote(own_directory)}`"
    if not is_inside_repository(repository, default_directory):
        unset = "" if configured_path is None else ", and unset core.hooksPath,"
        remedy = f"Replace the link {default_directory} with a directory{unset}"
    origin = (
        "" if configured_path is None else " `git config --show-origin core.hooksPath` shows where it is set."
    )
    return OutsideRepository(
        message,
        hint=f"{remedy} to give this repository its own hooks (the shared ones then no longer run here), or call "
        f'"lineage index --incremental" from your own hook.{origin}',
    )


def plan_install(file: Path, repository: Repository) -> FileChange:
    """Plan to create the hook file with the snippet, or to insert or update the snippet in it.

    Raise UnsupportedHook if the snippet cannot be inserted.
    """
    before = _read_editable_hook(file, repository)
    if before is None:
        return FileChange(file, "created", SHEBANG + HOOK_SNIPPET + b"\n", is_executable=True)
    after = _insert_or_update_snippet(file, before)
    is_lineage_only = _is_lineage_only(after)
    if not os.access(file, os.X_OK) and not is_lineage_only:
        raise UnsupportedHook(
            f"{file} is not executable, so git does not run it.",
            hint=f"Run `chmod +x {quote(str(file))}` to enable it, or use `--force` to replace it with lineage's hook.",
        )
    if after == before and os.access(file, os.X_OK):
        return FileChange(file, "unchanged")
    action = "updated" if SECTION.is_in(before) else "added"
    return FileChange(file, action, after, is_executable=is_lineage_only)


def plan_forced_install(file: Path, repository: Repository) -> FileChange:
    """Plan to back up a hook of the user, and to write lineage's hook in its place.

    Raise UnsupportedHook if there is a backup already, or a directory in place of the hook.
    """
    if not os.path.lexists(file) or _has_snippet(file) or file.is_dir():
        return plan_install(file, repository)
    backup = file.with_name(file.name + BACKUP_SUFFIX)
    if os.path.lexists(backup):
        raise UnsupportedHook(
            f"{backup} already exists, from an earlier --force.",
            hint="Move it away, or delete it if you no longer need it.",
        )
    return FileChange(
        file,
        "replaced",
        SHEBANG + HOOK_SNIPPET + b"\n",
        is_executable=True,
        backup=backup,
        notes=(f"the old hook is now {backup.name}; --remove restores it",),
    )


def plan_removal(file: Path, repository: Repository) -> FileChange | None:
    """Plan to remove the snippet from a hook, and the hook if nothing else is in it.

    A hook that `plan_forced_install` replaced is restored. Return None if the hook has no snippet.
    """
    if not file.is_file() or not is_inside_repository(repository, file):
        return None
    before = read_file(file) or b""
    if not _has_section(file, before):
        return None
    backup = file.with_name(file.name + BACKUP_SUFFIX)
    if not _is_lineage_only(before) or file.is_symlink():
        return FileChange(file, "removed", SECTION.remove_from(before))
    if os.path.lexists(backup):
        return FileChange(file, "restored", restore_from=backup)
    return FileChange(file, "deleted", is_deletion=True)


def _read_editable_hook(file: Path, repository: Repository) -> bytes | None:
    """Return the content of the hook, or None if there is no file.

    Raise UnsupportedHook if it is not a regular file inside the repository.
    """
    if not os.path.lexists(file):
        return None
    if not is_inside_repository(repository, file):
        raise UnsupportedHook(
            f"{file} is a link to {os.path.realpath(file)}, outside this repository. Others may use it too.",
            hint='Replace the link with the hook itself, or add "lineage index --incremental" to it by hand. '
            "`--force` replaces the link with lineage's hook.",
        )
    if not file.is_file():
        raise UnsupportedHook(
            f"{file} is not a regular file.", hint="Move it away and run `lineage init` again."
        )
    return read_file(file)


def _has_section(file: Path, text: bytes) -> bool:
    """Return whether the text of the hook has the section. Raise UnsupportedHook if its end marker is missing."""
    try:
        return SECTION.is_in(text)
    except SectionMarkerError as error:
        raise UnsupportedHook(f"{file}: {error.message}", hint=error.hint) from error


def _insert_or_update_snippet(file: Path, text: bytes) -> bytes:
    if _has_section(file, text):
        return SECTION.update_in(text, HOOK_SNIPPET)
    first_line, _, _ = text.partition(b"\n")
    if not text.startswith(b"#!"):
        _check_not_binary(file, text)
        return SECTION.insert_into(text, HOOK_SNIPPET, offset=0)  # without `#!`, git runs the hook with sh
    _check_interpreter(file, first_line)
    if text + b"\n" == SHEBANG:
        # With a final line break, the user's hook would become the one that lineage creates, which --remove deletes.
        return SHEBANG + HOOK_SNIPPET
    return SECTION.insert_into(text, HOOK_SNIPPET, offset=min(len(first_line) + 1, len(text)))


def _check_interpreter(file: Path, first_line: bytes) -> None:
    if first_line.endswith(b"\r"):
        raise UnsupportedHook(
            f"{file} has Windows line endings, so the system cannot find its interpreter.",
            hint="Convert it, for example with `sed -i 's/\\r$//'`. `--force` replaces it with lineage's hook.",
        )
    if parse_interpreter(first_line) not in SUPPORTED_SHELLS:
        raise UnsupportedHook(
            f"{file} is run by {first_line[2:].strip().decode('utf-8', 'replace')}, not by a POSIX shell.",
            hint='Call "lineage index --incremental" from it, or replace it with a shell script that runs it. '
            "`--force` replaces it with lineage's hook and keeps a backup.",
        )


def _check_not_binary(file: Path, text: bytes) -> None:
    if b"\0" in text:
        raise UnsupportedHook(
            f"{file} is a binary program, not a script.",
            hint="Rename it and call it from a shell script. `--force` replaces it with lineage's hook and keeps a "
            "backup.",
        )


def parse_interpreter(shebang: bytes) -> str:
    """Return the name of the program that a `#!` line runs, directly or through `env`."""
    words = shebang[2:].decode("utf-8", "replace").split()
    name = Path(words[0]).name if words else ""
    if name != "env":
        return name
    # `env` may have options and assignments before the program.
    programs = [word for word in words[1:] if not re.match(r"-|\w+=", word)]
    return Path(programs[0]).name if programs else ""


def _has_snippet(file: Path) -> bool:
    """Return whether the hook has the complete snippet; False if its end marker is missing."""
    try:
        return file.is_file() and SECTION.is_in(read_file(file) or b"")
    except SectionMarkerError:
        return False


def _is_lineage_only(text: bytes) -> bool:
    """Return whether a hook is as `plan_install` of this or another version of lineage creates it."""
    return (
        text.startswith(SHEBANG + SECTION.start)
        and text.endswith(SECTION.end + b"\n")
        and SECTION.remove_from(text) + b"\n" == SHEBANG
    )
