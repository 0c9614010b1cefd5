"""What our hooks run: a shell block, the same one for all of them, for any POSIX shell.

It goes to the top of a hook, because hooks end with `exit` or `exec` as they like, and it leaves the shell that
the rest of the hook runs in as it was: everything happens in a subshell. That subshell ends at once, so the hook
has no child to wait for, and neither has git.
"""

from __future__ import annotations

from typing import Final

from serve.initializing.fences import Fences

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
