#!/bin/sh
# Installs the commands lineage, lineage-mcp and mindmap; runs in any POSIX shell. A receipt next to the commands records
# what was installed and from where, for `lineage update`.
set -eu

distribution=history-lineage
wheel_name=history_lineage

print_usage() {
    cat <<'END'
Usage: sh install.sh [OPTIONS]

Installs the commands lineage, lineage-mcp and mindmap for the current user, without root.

  --from SOURCE    Source to install from [the directory of install.sh]:
                     DIR            a directory with the project, or with its wheels
                     git+ADDRESS    a git repository, such as git+https://host/name.git
                     index          the installer's default package index
                     index=ADDRESS  another package index
  --version V      Version to install; for git the tag vV. [the newest; for git the default branch]
  --ref REF        For git: branch or tag to install, which updates then follow.
  --with TOOL      Installer: pip (in a new virtual environment), pipx or uv. [pip]
  --prefix DIR     Directory of the virtual environment. [pip: ~/.local/share/lineage; else the tool's default]
  --bin-dir DIR    Directory of the commands. [pip: ~/.local/bin; else the tool's default]
  --python PYTHON  Python to use, 3.11 or newer. [the newest on PATH]
  --help           Show this help.

Later, `lineage update` updates from the same source with the same tool.
END
}

fail() {
    printf 'error: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf '  %s\n' "$2" >&2
    exit 1
}

fail_usage() {
    # shellcheck disable=SC2016 # backquotes in the message
    printf 'error: %s\n  Run `sh install.sh --help` for the options.\n' "$1" >&2
    exit 2
}

from='' version='' ref='' tool=pip prefix='' bin_dir='' python=''
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h)
        print_usage
        exit 0
        ;;
    --from | --version | --ref | --with | --prefix | --bin-dir | --python)
        [ $# -gt 1 ] || fail_usage "$1 needs a value."
        case $1 in
        --from) from=$2 ;;
        --version) version=$2 ;;
        --ref) ref=$2 ;;
        --with) tool=$2 ;;
        --prefix) prefix=$2 ;;
        --bin-dir) bin_dir=$2 ;;
        --python) python=$2 ;;
        esac
        shift 2
        ;;
    *) fail_usage "Unknown option $1." ;;
    esac
done

case $tool in
pip | pipx | uv) ;;
*) fail_usage "--with takes pip, pipx or uv, not $tool." ;;
esac

resolve_path() {
    (CDPATH='' cd -- "$1" && pwd -P)
}

# Python to use: the value of --python, or the newest on PATH, which must be 3.11 or newer.
is_supported_python() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}
if [ -n "$python" ]; then
    is_supported_python "$python" || fail "$python is not Python 3.11 or newer." "Choose another with --python."
else
    for python in python3.14 python3.13 python3.12 python3.11 python3 python ''; do
        if [ -n "$python" ] && is_supported_python "$python"; then break; fi
    done
    [ -n "$python" ] || fail "Python 3.11 or newer was not found." "Install it, or give its path with --python."
fi
python=$("$python" -c 'import sys; print(sys.executable)')
[ "$tool" = pip ] || command -v "$tool" >/dev/null ||
    fail "$tool was not found." "Install it, or omit --with: pip needs nothing else."

# The extra `pinned` requires the dependency versions with which the release was tested. pip gets it as a second
# requirement, because the pip of Python 3.11 rejects `NAME[EXTRA] @ git+file:///...`.
pinned="${distribution}[pinned]"
extra='[pinned]'
[ "$tool" != pip ] || extra=''

# The kind and location of the source, and the requirement to pass to the installer.
if [ -z "$from" ]; then
    from=$(resolve_path "$(dirname -- "$0")")
    [ -f "$from/pyproject.toml" ] || fail_usage "There is no project next to install.sh. Give a source with --from."
fi
source_option=''
case $from in
git+*)
    kind=git
    location=${from#git+}
    case $location in
    *://*) ;;
    /*) location=file://$location ;;
    *) fail_usage "$location is not a git address. Use git+https://..., git+ssh://..., or git+ and an absolute path." ;;
    esac
    revision=$ref
    [ -z "$version" ] || revision=v$version
    requirement="$pinned @ git+$location${revision:+@$revision}"
    [ "$tool" != pip ] || requirement="git+$location${revision:+@$revision}#egg=$distribution"
    ;;
index | index=*)
    kind=index
    location=${from#index}
    location=${location#=}
    requirement=$distribution$extra${version:+==$version}
    [ -z "$location" ] || source_option=--index-url=$location
    ;;
*)
    [ -d "$from" ] || fail_usage "$from is not a directory. A git address begins with git+."
    location=$(resolve_path "$from")
    if [ -f "$location/pyproject.toml" ]; then
        kind=directory requirement=$location$extra
        [ -z "$version" ] || fail_usage "A project directory has one version. Omit --version."
    else
        kind=wheels source_option=--find-links=$location
        # Without --version, the newest release is used, and never a pre-release.
        requirement=$("$python" -c '
import re, sys
from pathlib import Path
directory, name, requested = sys.argv[1:]
versions = {file: file.name.split("-")[1] for file in Path(directory).glob(f"{name}-*.whl")}
release = re.compile(r"\d+(\.\d+)*(\.post\d+)?")
files = [file for file, version in versions.items() if version == requested or not requested and release.fullmatch(version)]
print(max(files, key=lambda file: [int(part) for part in re.findall(r"\d+", versions[file])], default=""))
' "$location" "$wheel_name" "$version")
        [ -n "$requirement" ] || fail "$location has no wheel of $distribution${version:+ $version} and no project."
        requirement=$requirement$extra
    fi
    ;;
esac
[ "$kind" = git ] || [ -z "$ref" ] || fail_usage "--ref is only for git sources."

# Installation.
unfinished_environment=''
backup=''
# shellcheck disable=SC2317,SC2329 # the trap calls it
clean_up() {
    code=$?
    [ -z "$unfinished_environment" ] || rm -rf -- "$unfinished_environment"
    [ ! -d "$backup" ] || mv -- "$backup" "$environment"
    [ "$code" = 0 ] || printf 'Nothing was installed.\n' >&2
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

create_directory() {
    mkdir -p -- "$1" && resolve_path "$1"
}
[ -z "$prefix" ] || prefix=$(create_directory "$prefix")
[ -z "$bin_dir" ] || bin_dir=$(create_directory "$bin_dir")

case $tool in
pip)
    prefix=${prefix:-${XDG_DATA_HOME:-$HOME/.local/share}/lineage}
    bin_dir=${bin_dir:-$HOME/.local/bin}
    prefix=$(create_directory "$prefix")
    mkdir -p -- "$prefix/versions"
    environment=$prefix/versions/new-$$
    unfinished_environment=$environment
    "$python" -m venv "$environment"
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check ${source_option:+"$source_option"} \
        "$requirement" "$pinned"
    ;;
pipx)
    [ -z "$prefix" ] || export PIPX_HOME="$prefix"
    [ -z "$bin_dir" ] || export PIPX_BIN_DIR="$bin_dir"
    # pipx splits the value of --pip-args as a shell does.
    quoted=$(printf '%s\n' "$source_option" | sed "s/'/'\\\\''/g")
    pipx install --quiet --force --python="$python" ${source_option:+--pip-args="'$quoted'"} "$requirement"
    environment=$(pipx environment --value PIPX_LOCAL_VENVS)/$distribution
    bin_dir=$(pipx environment --value PIPX_BIN_DIR)
    ;;
uv)
    [ -z "$prefix" ] || export UV_TOOL_DIR="$prefix"
    [ -z "$bin_dir" ] || export UV_TOOL_BIN_DIR="$bin_dir"
    environment=$(uv tool dir)/$distribution
    # uv deletes the installed version before it installs another, so move the installed one away until uv has finished.
    backup=$environment.before-install
    # A backup is left over if an installation was killed. Then only the backup is a working version.
    if [ -d "$backup" ]; then
        rm -rf -- "$environment"
    elif [ -d "$environment" ]; then
        mv -- "$environment" "$backup"
    fi
    unfinished_environment=$environment
    uv tool install --quiet --force --reinstall --python="$python" ${source_option:+"$source_option"} "$requirement"
    bin_dir=$(uv tool dir --bin)
    ;;
esac

bin_dir=$(create_directory "$bin_dir")
"$environment/bin/python" -I -m serve.update.receipt --installer="$tool" --kind="$kind" \
    --location="$location" --ref="$ref" --environment="$environment" --commands="$bin_dir"
unfinished_environment=''
replaced_environment=$backup
backup=''
[ -z "$replaced_environment" ] || rm -rf -- "$replaced_environment"

printf 'Installed %s in %s with %s.\n' "$("$bin_dir/lineage" --version)" "$bin_dir" "$tool"
case :$PATH: in
*:"$bin_dir":*) ;;
*)
    # shellcheck disable=SC2016 # expanded by the user's shell
    printf 'Add this directory to your PATH: export PATH="%s:$PATH"\n' "$bin_dir"
    ;;
esac
