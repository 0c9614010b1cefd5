"""Git attributes of paths, and globs as git matches them.

Attributes come from files in the work tree, at HEAD and in the git directory, and from the user's file.

libgit2 waits forever for a pipe in place of an attributes file, and takes time that is exponential in the number of `*`
of a pattern. So a pipe, a huge file, and a file with too many `*` in a line count as unusable. No attributes are
returned for paths to which such a file applies, and for paths with more than MAX_LEVELS directories.

Globs of `.lineageignore` and of branches become regular expressions for RE2, which matches in time linear in the length
of the name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pygit2
import re2
from cachetools import LRUCache
from pygit2.enums import AttrCheck, DiffOption

from pipeline.git.changes import decode_path, list_parent_directories
from pipeline.git.git_dir import MAX_TEXT_BYTES, blocks_git, read_or_empty

FILE_NAME: Final = ".gitattributes"
# Matches a run of `*`.
STARS: Final = re.compile(rb"\*+")
# Maximum number of runs of `*` in a pattern. Matching N times `*` against a name of length L takes time L ** N, and so
# does matching N times `**` against a path of L levels. The patterns of 75 repositories have at most two runs.
MAX_STARS: Final = 3
# Maximum number of directories of a path. libgit2 looks up the attributes file of each directory from the root, which
# took 9 s for 2,500 directories. git itself reads at most 2,048 levels of directories.
MAX_LEVELS: Final = 1_000
# Value of the attribute `diff` for which libgit2, unlike git, has built-in patterns of hunk headings. They are not
# anchored to the start of a line, so matching a line of 8 KB took 0.25 s.
SLOW_DRIVER: Final = "javascript"
# Maximum number of entries of each cache. An entry takes about 150 bytes.
MAX_CACHED_PATHS: Final = 4_000

# Maximum length of a pattern. A longer one takes RE2 more than 10 ms a path. git has no such limit.
MAX_PATTERN_CHARACTERS: Final = 4_096
# Memory limit of RE2 for each pattern: enough for `?` 4,096 times.
MAX_PATTERN_MEMORY_BYTES: Final = 64 * 1024 * 1024

# Characters of each POSIX class, written for the brackets of a regular expression. As in git, they are ASCII, without
# `/`, because no bracket expression matches `/`.
POSIX_CLASSES: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-.0-~",
    "lower": "a-z",
    "print": " -.0-~",
    "punct": r"!-.:-@\[-`{-~",
    "space": r"\t-\r ",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
# Items of a bracket expression: a POSIX class, a character or a range. `]` is a character only as the first item.
_ITEM: Final = r"(?:\[:(?P<posix>[^]]*):\]|(?P<first>\\.|[^\\])(?:-(?P<last>\\.|[^]\\]))?)"
_UNNAMED_ITEM: Final = re.sub(r"\?P<\w+>", "?:", _ITEM)
BRACKET_ITEM: Final = re.compile(_ITEM)
# Matches a part of a glob. An unclosed bracket or a final backslash makes the glob invalid. The lookahead prevents
# backtracking into the items. Possessive quantifiers would too, but fail on groups before Python 3.11.5.
GLOB_PART: Final = re.compile(
    rf"\[(?P<negation>[!^]?+)(?=(?P<items>{_UNNAMED_ITEM}(?:(?!\]){_UNNAMED_ITEM})*))(?P=items)\]"
    r"|\\(?P<escaped>.)|(?P<other>\[.*|.)",
    re.DOTALL,
)

# Placeholder for `/` in a bracket expression, where `/` separates no directories. No path contains this character.
BRACKET_SLASH: Final = "\0"

# Matches a part of a pattern of names: `**` in place of directories or of the rest of the name, or a part of a glob.
NAME_PART: Final = re.compile(
    rf"(?P<directories>(?<=/)\*\*+/)|(?P<any>(?<=/)\*\*+(?=\\/|\Z))|{GLOB_PART.pattern}", re.DOTALL
)


class AttributeReader:
    """Reader of the attributes of paths in one repository.

    `root`: the work tree. `local_files`: attributes files of the git directory and of the user.
    `read_at_head`: returns the content of the file with a path at HEAD; None if there is no such file.
    """

    def __init__(
        self,
        git: pygit2.Repository,
        root: Path,
        local_files: Sequence[Path],
        read_at_head: Callable[[str], bytes | None],
    ) -> None:
        self._git = git
        self._root = root
        self._local_files = local_files
        self._read_at_head = read_at_head
        # By directory: whether all files that apply to its content are usable, and whether its own file is.
        self._all_usable_by_directory: LRUCache[str, bool] = LRUCache(MAX_CACHED_PATHS)
        self._own_usable_by_directory: LRUCache[str, bool] = LRUCache(MAX_CACHED_PATHS)
        self._diff_options: LRUCache[bytes, tuple[str, DiffOption]] = LRUCache(MAX_CACHED_PATHS)

    def get(self, path: str | bytes, name: str) -> bool | str | None:
        """Return an attribute of a path: True if set, False if unset, a string if it has a value.

        None if no attributes file specifies it, or if a file that applies to the path is unusable or unreadable.
        """
        return self._look_up(path, name, AttrCheck.INCLUDE_HEAD | AttrCheck.NO_SYSTEM)

    def _look_up(self, path: str | bytes, name: str, flags: AttrCheck) -> bool | str | None:
        if not self._has_usable_attributes(path if isinstance(path, str) else decode_path(path)):
            return None
        try:
            return self._git.get_attr(path, name, flags=flags)
        except (pygit2.GitError, KeyError, ValueError):  # an attributes file or value cannot be read
            return None

    def find_diff_options(self, path: bytes) -> tuple[str, DiffOption]:
        """Return the path and the option to give libgit2 for a diff of a file. The path is the file's own, or empty.

        For an empty path, libgit2 skips the lookup of attributes, which takes system calls for each directory. The path
        is empty if the file has no `diff` attribute, or if the configuration or libgit2 has patterns of hunk headings
        for the attribute's value. libgit2 would match each line with these patterns, in exponential time, and the
        headings would change the index. In the second case, the option says if the configuration makes such files
        binary or text.
        """
        options = self._diff_options.get(path)
        if options is None:
            name = decode_path(path)
            # The default flags, like libgit2's own lookup in a diff.
            driver = self._look_up(name, "diff", AttrCheck.FILE_THEN_INDEX)
            settings = (f"diff.{driver}.xfuncname", f"diff.{driver}.funcname")
            options = "" if driver is None else name, DiffOption.NORMAL
            if driver == SLOW_DRIVER or any(setting in self._git.config for setting in settings):
                options = "", self._read_binary_option(f"diff.{driver}.binary")
            self._diff_options[path] = options
        return options

    def _read_binary_option(self, setting: str) -> DiffOption:
        try:
            return DiffOption.FORCE_BINARY if self._git.config.get_bool(setting) else DiffOption.FORCE_TEXT
        except (KeyError, ValueError, pygit2.GitError):  # missing, or `auto`
            return DiffOption.NORMAL

    def read_local_files(self) -> list[bytes]:
        """Return the content of each of `local_files`; empty for a file that cannot be read."""
        return [read_or_empty(file, MAX_TEXT_BYTES) for file in self._local_files]

    @cached_property
    def _has_usable_local_files(self) -> bool:
        return not any(map(_is_unusable, self._local_files))

    def _has_usable_attributes(self, path: str) -> bool:
        """Return whether a path has at most MAX_LEVELS directories, and all attributes files for it are usable."""
        directory = path.rpartition("/")[0]
        is_usable = self._all_usable_by_directory.get(directory)
        if is_usable is None:
            is_usable = (
                directory.count("/") < MAX_LEVELS
                and self._has_usable_local_files
                and all(map(self._has_usable_file, ["", *list_parent_directories(path)]))
            )
            self._all_usable_by_directory[directory] = is_usable
        return is_usable

    def _has_usable_file(self, directory: str) -> bool:
        """Return whether the attributes file of a directory is usable or missing, in the work tree and at HEAD."""
        is_usable = self._own_usable_by_directory.get(directory)
        if is_usable is None:
            # A round trip through UTF-8, because Python cannot encode all letters of a path in an ASCII locale.
            name = os.fsdecode(f"{directory}/{FILE_NAME}".lstrip("/").encode())
            is_usable = not (
                _is_unusable(self._root / name) or _has_slow_pattern(self._read_at_head(name) or b"")
            )
            self._own_usable_by_directory[directory] = is_usable
        return is_usable


def _is_unusable(file: Path) -> bool:
    """Return whether libgit2 may hang while reading or matching an attributes file."""
    return blocks_git(file) or _has_slow_pattern(read_or_empty(file))


def _has_slow_pattern(attributes: bytes) -> bool:
    """Return whether a line of an attributes file may have a pattern with more than MAX_STARS runs of `*`."""
    # A `*` in a value counts too, because git and libgit2 disagree about where a pattern ends.
    # A backslash continues a pattern on the next line.
    lines = attributes.replace(b"\\\n", b"").split(b"\n")
    return any(
        len(STARS.findall(line)) > MAX_STARS for line in lines if not line.lstrip(b" \t").startswith(b"#")
    )


def compile_regex(regex: str) -> Any:
    """Return a regular expression compiled by RE2, with limited memory. Raises re2.error."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_PATTERN_MEMORY_BYTES
    return re2.compile(regex, options)


class NamePattern:
    """Pattern of ref names, as in `git for-each-ref`: a glob, a whole name, or leading directories of names.

    Callers limit its length to about MAX_PATTERN_CHARACTERS.
    """

    def __init__(self, pattern: bytes) -> None:
        # git compares bytes, so each byte is a character here.
        self._text = pattern.decode("latin-1")
        self._directory = self._text if self._text.endswith("/") else f"{self._text}/"
        try:
            parts = map(_translate_name_part, NAME_PART.finditer(mask_bracket_slashes(self._text)))
            self._regex = compile_regex(f"(?s){''.join(parts)}")
        except ValueError:  # git matches nothing with an invalid glob
            self._regex = None

    def matches(self, name: bytes) -> bool:
        """Return whether a name matches."""
        text = name.decode("latin-1")
        return (
            text == self._text
            or text.startswith(self._directory)
            or (self._regex is not None and self._regex.fullmatch(text) is not None)
        )


def mask_bracket_slashes(pattern: str) -> str:
    """Replace each `/` in a bracket expression by BRACKET_SLASH: there, `/` separates no directories."""
    return GLOB_PART.sub(
        lambda part: part[0].replace("/", BRACKET_SLASH) if part["items"] else part[0], pattern
    )


def _translate_name_part(part: re.Match[str]) -> str:
    if part["directories"]:
        return "(?:.*/)?"
    return ".*" if part["any"] else translate_part(part)


def translate_part(part: re.Match[str]) -> str:
    """Return the regular expression of a match of GLOB_PART. Raises ValueError if the part makes the glob invalid."""
    if part["items"]:
        ranges = "".join(_translate_bracket_item(item) for item in BRACKET_ITEM.finditer(part["items"]))
        return f"[^/{ranges}]" if part["negation"] else f"[{ranges}]"
    if part["escaped"]:
        return re.escape(part["escaped"])
    if part["other"].startswith(("[", "\\")):
        raise ValueError(part["other"])
    return {"*": "[^/]*", "?": "[^/]"}.get(part["other"]) or re.escape(part["other"])


def _translate_bracket_item(item: re.Match[str]) -> str:
    """Return the ranges of characters that an item of a bracket expression matches, without `/`."""
    if item["posix"] is not None:
        if item["posix"] not in POSIX_CLASSES:
            raise ValueError(item["posix"])
        return POSIX_CLASSES[item["posix"]]
    first, last = item["first"][-1], (item["last"] or item["first"])[-1]
    low, high = (end.replace(BRACKET_SLASH, "/") for end in (first, last))
    # git matches the first character of a range even if the range is reversed.
    # `/`, which lies between `.` and `0`, is left out.
    ranges = [(first, first), (low, min(high, ".")), (max(low, "0"), high)]
    return "".join(f"{re.escape(start)}-{re.escape(end)}" for start, end in ranges if start <= end)
