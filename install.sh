#!/bin/sh
# Installs lineage, lineage-mcp and mindmap, and writes beside them what was installed from where,
# so that `lineage update` can do it again. Runs in any POSIX shell.
set -eu

distribution=history-lineage
wheel_name=history_lineage

usage() {
    cat <<'END'
Usage: sh install.sh [OPTIONS]

Installs the commands lineage, lineage-mcp and mindmap for you alone; root is not needed.

  --from SOURCE    Where from [the folder that install.sh is in]:
                     DIR            a folder with the project, or with its wheels
                     git+ADDRESS    a git repository, such as git+https://host/name.git
                     index          the package index that the installer is set up with
                     index=ADDRESS  another package index
  --version V      This version; for git the tag vV. [the newest; for git the default branch]
  --ref REF        For git: this branch or tag, which updates then follow.
  --with TOOL      pip (into an environment of its own), pipx or uv. [pip]
  --prefix DIR     Where the environment goes. [pip: ~/.local/share/lineage; else the tool's own place]
  --bin-dir DIR    Where the commands go. [pip: ~/.local/bin; else the tool's own place]
  --python PYTHON  A Python from 3.11 on. [the newest on PATH]
  --help           Show this.

Afterwards `lineage update` updates from the same source, by the same tool.
END
}

fail() {
    printf 'error: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf '  %s\n' "$2" >&2
    exit 1
}

misused() {
    # shellcheck disable=SC2016 # backquotes as people see them
    printf 'error: %s\n  `sh install.sh --help` lists what is accepted.\n' "$1" >&2
    exit 2
}

from='' version='' ref='' tool=pip prefix='' commands='' python=''
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h)
        usage
        exit 0
        ;;
    --from | --version | --ref | --with | --prefix | --bin-dir | --python)
        [ $# -gt 1 ] || misused "$1 needs a value."
        case $1 in
        --from) from=$2 ;;
        --version) version=$2 ;;
        --ref) ref=$2 ;;
        --with) tool=$2 ;;
        --prefix) prefix=$2 ;;
        --bin-dir) commands=$2 ;;
        --python) python=$2 ;;
        esac
        shift 2
        ;;
    *) misused "$1 is no option." ;;
    esac
done

case $tool in
pip | pipx | uv) ;;
*) misused "--with takes pip, pipx or uv, not $tool." ;;
esac

absolute() {
    (CDPATH='' cd -- "$1" && pwd -P)
}

# Python: 3.11 or newer, the newest there is.
fits() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}
if [ -n "$python" ]; then
    fits "$python" || fail "$python is no Python from 3.11 on." "Name another with --python."
else
    for python in python3.14 python3.13 python3.12 python3.11 python3 python ''; do
        if [ -n "$python" ] && fits "$python"; then break; fi
    done
    [ -n "$python" ] || fail "There is no Python from 3.11 on." "Install one, or name it with --python."
fi
python=$("$python" -c 'import sys; print(sys.executable)')
[ "$tool" = pip ] || command -v "$tool" >/dev/null ||
    fail "$tool was not found." "Install it, or leave --with out: pip needs nothing further."

# Source: its kind, its location, and what the installer is told.
if [ -z "$from" ]; then
    from=$(absolute "$(dirname -- "$0")")
    [ -f "$from/pyproject.toml" ] || misused "There is no project beside install.sh: say --from where."
fi
options=''
case $from in
git+*)
    kind=git
    location=${from#git+}
    case $location in
    *://*) ;;
    /*) location=file://$location ;;
    *) misused "$location is no address: git+https://..., git+ssh://..., or git+ and a path from /." ;;
    esac
    at=$ref
    [ -z "$version" ] || at=v$version
    requirement="$distribution @ git+$location${at:+@$at}"
    # The pip that Python 3.11 brings takes no address without a host, such as file:///..., after a name.
    [ "$tool" != pip ] || requirement="git+$location${at:+@$at}#egg=$distribution"
    ;;
index | index=*)
    kind=index
    location=${from#index}
    location=${location#=}
    requirement=$distribution${version:+==$version}
    [ -z "$location" ] || options=--index-url=$location
    ;;
*)
    [ -d "$from" ] || misused "$from is no folder; a git address begins with git+."
    location=$(absolute "$from")
    if [ -f "$location/pyproject.toml" ]; then
        kind=directory requirement=$location
        [ -z "$version" ] || misused "A folder has one version: leave --version out."
        if [ -f "$location/constraints.txt" ]; then
            PIP_CONSTRAINT=$location/constraints.txt UV_CONSTRAINT=$location/constraints.txt
            export PIP_CONSTRAINT UV_CONSTRAINT
        fi
    else
        kind=wheels options=--find-links=$location
        # The newest release; a pre-release is installed by naming it.
        requirement=$("$python" -c '
import re, sys
from pathlib import Path
folder, name, wanted = sys.argv[1:]
there = {file: file.name.split("-")[1] for file in Path(folder).glob(f"{name}-*.whl")}
kept = [f for f, v in there.items() if v == wanted or not wanted and re.fullmatch(r"\d+(\.\d+)*(\.post\d+)?", v)]
print(max(kept, key=lambda file: [int(part) for part in re.findall(r"\d+", there[file])], default=""))
' "$location" "$wheel_name" "$version")
        [ -n "$requirement" ] || fail "$location has no wheel of $distribution${version:+ $version}, and no project."
    fi
    ;;
esac
[ "$kind" = git ] || [ -z "$ref" ] || misused "--ref is for git."

# Installation.
unfinished=''
# shellcheck disable=SC2317,SC2329 # the trap calls it
cleaned() {
    code=$?
    [ -z "$unfinished" ] || rm -rf -- "$unfinished"
    [ "$code" = 0 ] || printf 'Nothing was installed.\n' >&2
}
trap cleaned EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

made() {
    mkdir -p -- "$1" && absolute "$1"
}
[ -z "$prefix" ] || prefix=$(made "$prefix")
[ -z "$commands" ] || commands=$(made "$commands")

case $tool in
pip)
    prefix=${prefix:-${XDG_DATA_HOME:-$HOME/.local/share}/lineage}
    commands=${commands:-$HOME/.local/bin}
    prefix=$(made "$prefix")
    mkdir -p -- "$prefix/versions"
    environment=$prefix/versions/new-$$
    unfinished=$environment
    "$python" -m venv "$environment"
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check ${options:+"$options"} "$requirement"
    ;;
pipx)
    [ -z "$prefix" ] || export PIPX_HOME="$prefix"
    [ -z "$commands" ] || export PIPX_BIN_DIR="$commands"
    # pipx takes these apart as a shell does.
    quoted=$(printf '%s\n' "$options" | sed "s/'/'\\\\''/g")
    pipx install --quiet --force --python="$python" ${options:+--pip-args="'$quoted'"} "$requirement"
    environment=$(pipx environment --value PIPX_LOCAL_VENVS)/$distribution
    commands=$(pipx environment --value PIPX_BIN_DIR)
    ;;
uv)
    [ -z "$prefix" ] || export UV_TOOL_DIR="$prefix"
    [ -z "$commands" ] || export UV_TOOL_BIN_DIR="$commands"
    uv tool install --quiet --force --reinstall --python="$python" ${options:+"$options"} "$requirement"
    environment=$(uv tool dir)/$distribution
    commands=$(uv tool dir --bin)
    ;;
esac

commands=$(made "$commands")
"$environment/bin/python" -I -m serve.update.receipt --installer="$tool" --kind="$kind" \
    --location="$location" --ref="$ref" --environment="$environment" --commands="$commands"
unfinished=''

printf 'Installed %s in %s, by %s.\n' "$("$commands/lineage" --version)" "$commands" "$tool"
case :$PATH: in
*:"$commands":*) ;;
*)
    # shellcheck disable=SC2016 # for the person's own shell
    printf 'Put that folder on your PATH: export PATH="%s:$PATH"\n' "$commands"
    ;;
esac
