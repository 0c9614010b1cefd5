"""Ignore rules in three layers: defaults, git attributes and `.lineageignore`. The last layer that matches decides."""

from __future__ import annotations

import os
import pickle
import subprocess
import time
from collections.abc import Iterator, Sequence
from errno import EACCES
from pathlib import Path

import pygit2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec
from pygit2.enums import ConfigLevel

from pipeline import ignore
from pipeline.git import attributes, git_dir
from pipeline.git.repository import open_repository
from pipeline.hunks import extract_hunks
from pipeline.ignore import (
    IgnoreRules,
    LinearPattern,
    PatternTooLong,
    UnreadableIgnoreFile,
    UnsupportedPattern,
    parse_patterns,
)
from tests.repos import Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "work")
    repo.commit_file("a.py", "a\n")
    return repo


def read_rules(repo: Repo) -> IgnoreRules:
    return IgnoreRules.from_repository(open_repository(repo.path))


def check_ignored(repo: Repo, *paths: str) -> list[bool]:
    """Return for each path whether the repository's rules ignore it."""
    rules = read_rules(repo)
    return [rules.is_ignored(path) for path in paths]


def test_defaults(repo: Repo) -> None:
    """Lock files, copied dependencies and build output are ignored by default; files with similar names are not."""
    ignored_paths = [
        "package-lock.json",
        "web/yarn.lock",
        "node_modules/x/a.js",
        "lib/a.min.js",
        "api/x_pb2.py",
    ]
    ignored_paths += [
        "dist/a.js",
        "sub/target/debug/a.d",
        "bun.lockb",
        "deno.lock",
        "flake.lock",
        "mix.lock",
        "pixi.lock",
    ]
    ignored_paths += ["ios/Podfile.lock", "app/pubspec.lock", "src/packages.lock.json", "Package.resolved"]
    included_paths = [
        "a.py",
        "src/lock.py",
        "vendors.py",
        "docs/node_modules.md",
        "build/rules.py",
        "src/dist.py",
        "target.go",
    ]
    assert check_ignored(repo, *ignored_paths) == [True] * len(ignored_paths)
    assert check_ignored(repo, *included_paths) == [False] * len(included_paths)


def test_ignore_file_overrides_a_default(repo: Repo) -> None:
    """A negated pattern in `.lineageignore` includes only the paths that it matches."""
    repo.write(".lineageignore", "!dist/\n!/target/\n")
    assert check_ignored(repo, "dist/a.js", "web/dist/b.js", "target/x", "sub/target/x") == [
        False,
        False,
        False,
        True,
    ]


def test_attributes_override_defaults(repo: Repo) -> None:
    """Paths with a `linguist-*` attribute that is set are ignored. Paths with one that is unset are included."""
    repo.write(
        ".gitattributes",
        "gen/* linguist-generated\nthird/** linguist-vendored=true\nyarn.lock -linguist-generated\n",
    )
    repo.write("sub/.gitattributes", "made.py linguist-generated\ngo.sum linguist-generated=false\n")
    repo.commit("Attributes")
    paths = ("gen/a.py", "third/x/b.c", "yarn.lock", "sub/made.py", "sub/go.sum", "a.py", "Cargo.lock")
    assert check_ignored(repo, *paths) == [True, True, False, True, False, False, True]


@pytest.mark.parametrize("has_root_attributes", [False, True])
@pytest.mark.parametrize("kind", ["untracked", "deleted"])
def test_nested_attributes(repo: Repo, kind: str, has_root_attributes: bool) -> None:
    """Nested attributes files count in the work tree and at HEAD, whatever the root file contains."""
    repo.write("sub/deep/b.py", "b\n")
    if has_root_attributes:
        repo.write(".gitattributes", "other.py linguist-generated\n")
    repo.commit("Files")
    repo.write("sub/.gitattributes", "b.py linguist-generated\n")
    if kind == "deleted":
        repo.commit("Attributes")
        (repo.path / "sub/.gitattributes").unlink()
    assert check_ignored(repo, "sub/deep/b.py", "a.py") == [True, False]


def test_local_attributes(repo: Repo) -> None:
    """`info/attributes` applies like a committed attributes file."""
    (repo.path / ".git/info").mkdir(exist_ok=True)
    (repo.path / ".git/info/attributes").write_text("a.py linguist-generated\n")
    assert check_ignored(repo, "a.py", "b.py") == [True, False]


@pytest.fixture
def user_attributes_file(tmp_path: Path) -> Iterator[Path]:
    """Return the path of the user's attributes file, set to a temporary directory."""
    previous_path = pygit2.settings.search_path[ConfigLevel.XDG]
    pygit2.settings.search_path[ConfigLevel.XDG] = str(tmp_path)
    yield tmp_path / "attributes"
    pygit2.settings.search_path[ConfigLevel.XDG] = previous_path


@pytest.mark.parametrize("is_configured", [False, True])
def test_user_attributes(repo: Repo, user_attributes_file: Path, is_configured: bool) -> None:
    """The user's attributes apply, from the default file or a configured one."""
    if is_configured:
        user_attributes_file = user_attributes_file.with_name("others")
        repo.git("config", "core.attributesFile", str(user_attributes_file))
    user_attributes_file.write_text("a.py linguist-generated\n")
    assert check_ignored(repo, "a.py", "b.py") == [True, False]


def test_ignore_file_overrides_all_layers(repo: Repo) -> None:
    """`.lineageignore` both ignores and includes paths, whatever attributes and defaults say."""
    repo.write(".gitattributes", "gen/* linguist-generated\n")
    repo.write(
        ".lineageignore",
        "# comment\n*.md\n!README.md\n!yarn.lock\n!gen/included.py\n!vendor/ours/\n/top.py\n",
    )
    repo.commit("Rules")
    paths = {
        "docs/a.md": True,
        "README.md": False,
        "yarn.lock": False,
        "gen/included.py": False,
        "gen/other.py": True,
        "vendor/ours/a.go": False,
        "vendor/theirs/a.go": True,
        "top.py": True,
        "sub/top.py": False,
    }
    assert check_ignored(repo, *paths) == list(paths.values())


def test_file_in_ignored_directory_can_be_included(repo: Repo) -> None:
    """A negated pattern includes a file in an ignored directory, unlike in `.gitignore`."""
    repo.write(".lineageignore", "data/\n!data/included.csv\nlogs/*\n!logs/included.log\n")
    assert check_ignored(repo, "data/included.csv", "logs/included.log", "logs/other.log") == [
        False,
        False,
        True,
    ]


def test_uncommitted_ignore_file(repo: Repo) -> None:
    """Rules are read from the work tree, so they apply before they are committed."""
    assert check_ignored(repo, "a.py") == [False]
    repo.write(".lineageignore", "a.py\n")
    assert check_ignored(repo, "a.py") == [True]


def test_patterns_are_matched_in_linear_time(repo: Repo) -> None:
    """Patterns for which `re` would need exponential time are matched in seconds, and so are thousands of patterns."""
    long_names = ["a" * 100, "x/" * 200 + "y", "a" * 99 + "b"]
    lines = ["*a*a*a*a*a*a*a*a*ab", "**/x/" * 100 + "z", "*a" * 2_000 + "c"]
    repo.write(".lineageignore", "\n".join([*lines, *(f"folder{n}/*.py" for n in range(5_000))]))
    start_time = time.process_time()
    assert check_ignored(repo, *long_names, "folder9/a.py", "sub/folder9/a.py") == [
        False,
        False,
        True,
        True,
        False,
    ]
    assert time.process_time() - start_time < 30  # with exponential time the test would never end


def test_too_long_pattern_is_an_error(repo: Repo) -> None:
    """A pattern longer than any path is an error that names its line; a long comment is not."""
    repo.write(".lineageignore", "a\n" + "#" * 70_000 + "\n" + "?" * 65_536 + "\n")
    with pytest.raises(PatternTooLong, match=r"^Line 3 of \.lineageignore has 65,536 characters"):
        check_ignored(repo, "a")


BRACKET_PATTERNS = r"""
[[:digit:]] x[[:alpha:]] [[:space:]]y [![:digit:]] [^[:alpha:]] [[:alpha:][:digit:]] [[:punct:]]
[[:digits:]] [[::]] [[:] [[:upper:]] [[:lower:]-z] [[:xdigit:]] [[:blank:]] [[:graph:]] [[:print:]]
[[:cntrl:]] [[:alnum:]] [a-[:digit:]] [[a] [a\d]x [a\]b] [\]] [\\] [a-\d] [\a-d] [] []] []a] []-a] [!]]
[!]a] [^]a] [^a] [!a] [a [a-] [-a] [--0] [a-c-e] [9-0] [9-0a] [d-a]x [+-9] [+-9]x x[!a]y x[/]y x[.-0]y
x[[:punct:]]y a[a-c]* *[0-9]? [*] [?] \[a] \[a] [a]] [!-] [a!] [&&] [a--] [~~] [||] [^^]
secret[[:digit:]].env [a-z]*[!x]
"""
BRACKET_NAMES = r"""
a d 1 9 x y z A - : ] ^ ! [ * ? & ~ | + \ [a] a] b] [9-0] xa xA ax dx 1x x/y x-y x.y xay xby abc a12
secret1.env secretx.env [:] :] a:] 1]
"""


def test_bracket_expressions_match_as_in_git(repo: Repo) -> None:
    """POSIX classes, escapes, ranges and negations match the same names as in git; no warning is printed."""
    names = [*BRACKET_NAMES.split(), " y", "\ty", "\x7f"]
    assert find_differences(repo, BRACKET_PATTERNS.split(), names) == {}


SLASH_PATTERNS = r"""
[:/] [/] [^/] [!/]b a[x/y]b /a[x/y]b sub/a[x/y] a[x/y]/ a[b/ a/[b [a/]/b [a/b]* **/[a/]b x[+-/]y x[/-a]b [/-[:digit:]]
[[:al/ha:]] [\/] \[a/b] [a\/b] ![a/]b #[a/]b
"""


def test_slashes_in_bracket_expressions_match_as_in_git(repo: Repo) -> None:
    """A slash in a bracket expression does not separate directories or match a slash, but it anchors the pattern."""
    names = [
        *BRACKET_NAMES.split(),
        "axb",
        "ayb",
        "a/b",
        "b",
        "sub/a",
        "sub/ax",
        "sub/axb",
        "ax/b",
        "a/b/a",
        "ab/a",
    ]
    assert find_differences(repo, SLASH_PATTERNS.split(), names) == {}
    assert [parse_patterns(line) for line in (b"#[a/]b", b"a[b/")] == [(), ()]


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.text("[]!^-:\\ac*?", min_size=1, max_size=9).map("[{}".format), min_size=40, max_size=40),
    st.lists(
        st.from_regex(r"a?\[[]\]!^\-:ac/]{0,4}/[]\]!^\-:ac/]{0,4}\][a*]?", fullmatch=True),
        min_size=20,
        max_size=20,
    ),
    st.lists(st.text("[]!^-:\\abc", min_size=1, max_size=3), min_size=20, max_size=20),
)
def test_random_bracket_expressions_match_as_in_git(
    repo: Repo, patterns: Sequence[str], patterns_with_slash: Sequence[str], names: Sequence[str]
) -> None:
    """Bracket expressions of any form, with slashes and also invalid ones, match the same names as in git."""
    names = [*"[]!^-:\\abc", "aa", "ab", "a/a", "b/a", "a/ba", *names]
    assert find_differences(repo, [*patterns, *patterns_with_slash], names) == {}


def find_differences(
    repo: Repo, patterns: Sequence[str], names: Sequence[str]
) -> dict[tuple[str, str], tuple[bool, bool]]:
    """Return the verdicts of this project and of git for each pair of pattern and name for which they differ."""
    for number, pattern in enumerate(patterns):
        repo.write(f"{number}/.gitignore", pattern + "\n")
    paths = [(number, name) for number in range(len(patterns)) for name in names]
    completed = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin", "-z"],
        cwd=repo.path,
        input="".join(f"{number}/{name}\0" for number, name in paths).encode(),
        stdout=subprocess.PIPE,
        check=False,
    )
    assert completed.returncode in (0, 1)  # 1: git ignores none of the paths
    ignored_paths = set(completed.stdout.decode().split("\0"))
    specs = [
        GitIgnoreSpec.from_lines(parse_patterns(pattern.encode()), LinearPattern, backend="simple")
        for pattern in patterns
    ]
    verdicts = {
        (patterns[number], name): (
            specs[number].match_file(name),
            f"{number}/{name}" in ignored_paths,
        )
        for number, name in paths
    }
    return {key: verdict for key, verdict in verdicts.items() if verdict[0] != verdict[1]}


def test_unsupported_pattern_is_an_error(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern that RE2 rejects is an error that names its line.

    It is not skipped, because it may be meant to keep secrets out of the index.
    """
    monkeypatch.setattr(attributes, "MAX_PATTERN_MEMORY_BYTES", 10_000)
    repo.write(".lineageignore", "a\n" + "?" * 4_000 + "\n")
    with pytest.raises(UnsupportedPattern, match=r"^Line 2 of \.lineageignore cannot be matched: "):
        check_ignored(repo, "a")


@given(
    st.lists(st.text("ab/*?!\\-", min_size=1, max_size=8), min_size=1, max_size=4),
    st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=3),
)
def test_patterns_match_as_in_pathspec(lines: list[str], parts: list[str]) -> None:
    """Without bracket expressions, RE2 gives the verdicts of pathspec's own matcher."""
    patterns = parse_patterns("\n".join(lines).encode())
    path = "/".join(parts)
    expected = GitIgnoreSpec.from_lines(patterns, backend="simple").check_file(path).include
    assert (
        GitIgnoreSpec.from_lines(patterns, LinearPattern, backend="simple").check_file(path).include
        == expected
    )


def test_ignore_file_syntax(repo: Repo) -> None:
    """As in git, a byte order mark is skipped, a form feed belongs to the pattern, and invalid lines match nothing."""
    repo.write(".lineageignore", b"\xef\xbb\xbffirst.py\r\nform\x0cfeed.py\n!\nback\\\n[9-0]\nlast.py\r")
    paths = {"first.py": True, "form\x0cfeed.py": True, "form": False, "feed.py": False, "last.py": True}
    assert check_ignored(repo, *paths) == list(paths.values())


def test_pipes_in_the_work_tree_are_not_read(repo: Repo) -> None:
    """Pipes in place of attributes files and the mailmap have no effect; reading them would block."""
    repo.write("sub/b.py", "b\n")
    repo.write("sub/.gitattributes", "b.py linguist-generated\n")
    sha = repo.commit("Attributes")
    (repo.path / "sub/.gitattributes").unlink()
    for name in (".gitattributes", "sub/.gitattributes", ".mailmap"):
        os.mkfifo(repo.path / name)
    assert check_ignored(repo, "sub/b.py", "a.py", "yarn.lock") == [False, False, True]
    assert len(extract_hunks(open_repository(repo.path), sha, lambda _: False).hunks) == 2


@pytest.mark.parametrize("is_local", [True, False])
def test_pipes_outside_the_work_tree_are_not_read(
    repo: Repo, user_attributes_file: Path, is_local: bool
) -> None:
    """A pipe in place of `info/attributes` or the user's attributes file has no effect."""
    repo.write("b.py", "b\n")
    repo.write(".gitattributes", "b.py linguist-generated\n")
    sha = repo.commit("Attributes")
    file = repo.path / ".git/info/attributes" if is_local else user_attributes_file
    file.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(file)
    assert check_ignored(repo, "a.py", "yarn.lock") == [False, True]
    assert len(extract_hunks(open_repository(repo.path), sha, lambda _: False).hunks) == 2


@pytest.mark.parametrize("file_kind", ["dangling", "loop", "directory", "pipe"])
def test_ignore_file_must_be_a_file(repo: Repo, file_kind: str) -> None:
    """A dangling link, a link loop, a directory or a pipe is an error, because the patterns are unknown."""
    file = repo.path / ".lineageignore"
    match file_kind:
        case "directory":
            file.mkdir()
        case "pipe":
            os.mkfifo(file)
        case _:
            file.symlink_to("nowhere" if file_kind == "dangling" else file.name)
    with pytest.raises(UnreadableIgnoreFile, match=r"\.lineageignore cannot be read"):
        read_rules(repo)


def test_unreadable_ignore_file_is_an_error(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the ignore file cannot be read, the error names the file and the reason."""

    def raise_error(file: Path, *_: int) -> bytes:
        if file.name != ".lineageignore":
            return b""
        # Raised here, because root can read every file.
        raise PermissionError(EACCES, os.strerror(EACCES), file)

    monkeypatch.setattr(git_dir, "read_small_file", raise_error)
    with pytest.raises(UnreadableIgnoreFile, match=r"\.lineageignore cannot be read: Permission denied"):
        read_rules(repo)


def test_bare_repository(repo: Repo, tmp_path: Path) -> None:
    """In a bare repository, ignore and attributes files are read from HEAD."""
    repo.write(".lineageignore", "*.md\n")
    repo.write("sub/.gitattributes", "x.py linguist-generated\n")
    repo.commit("Rules")
    bare = repo.clone(tmp_path / "bare.git", "--bare")
    assert check_ignored(bare, "a.md", "sub/x.py", "a.py", "yarn.lock") == [True, True, False, True]


def test_empty_repository(tmp_path: Path) -> None:
    """Before the first commit the defaults apply."""
    assert check_ignored(Repo.create(tmp_path / "new"), "yarn.lock", "a.py") == [True, False]


def test_pickled_rules(repo: Repo) -> None:
    """Rules decide the same after pickling, whether used before or not."""
    repo.write(".gitattributes", "gen/* linguist-generated\n")
    repo.write(".lineageignore", "!gen/included.py\n")
    paths = ("gen/a.py", "gen/included.py", "yarn.lock", "a.py")
    rules = read_rules(repo)
    unused_rules = pickle.dumps(rules)
    verdicts = [rules.is_ignored(path) for path in paths]
    for data in (unused_rules, pickle.dumps(rules)):
        loaded_rules = pickle.loads(data)  # noqa: S301 - pickled above
        assert [loaded_rules.is_ignored(path) for path in paths] == verdicts == [True, False, True, False]


def test_verdict_cache_is_bounded(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache has a limited number of entries, and evicted verdicts are computed again."""
    monkeypatch.setattr(ignore, "MAX_CACHED_PATHS", 2)
    rules = read_rules(repo)
    for _ in range(2):
        assert [rules.is_ignored(path) for path in ("a.py", "yarn.lock", "b.py", "go.sum")] == [
            False,
            True,
        ] * 2
    assert len(rules._verdicts) <= 2
