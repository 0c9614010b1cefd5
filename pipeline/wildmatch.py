"""Glob patterns as git matches them (its wildmatch), as regular expressions for RE2.

git and libgit2 take exponential time for some patterns, such as `*a*a*a*a*a*ab`, and RE2 takes time linear in the name.
"""

from __future__ import annotations

import re
from typing import Any, Final

import re2

# A longer pattern costs RE2 more than 10 ms a path. git has no such limit.
MAX_PATTERN_CHARACTERS: Final = 4_096
# Memory limit of RE2 for each pattern: enough for `?` 4,096 times.
MAX_PATTERN_MEMORY_BYTES: Final = 64 * 1024 * 1024

# Content of each POSIX class in a regular expression. As in git: ASCII only, and no bracket expression matches `/`.
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
# Items of a bracket expression: a POSIX class, a character or a range. Only as the first item `]` is a character.
_ITEM: Final = r"(?:\[:(?P<posix>[^]]*):\]|(?P<first>\\.|[^\\])(?:-(?P<last>\\.|[^]\\]))?)"
_UNNAMED_ITEM: Final = re.sub(r"\?P<\w+>", "?:", _ITEM)
BRACKET_ITEM: Final = re.compile(_ITEM)
# Parts of a glob; an opening bracket or a backslash by itself makes it invalid. The lookahead keeps the items from
# being matched again in another way. Possessive quantifiers would too, but fail on groups before Python 3.11.5.
GLOB_PART: Final = re.compile(
    rf"\[(?P<negation>[!^]?+)(?=(?P<items>{_UNNAMED_ITEM}(?:(?!\]){_UNNAMED_ITEM})*))(?P=items)\]"
    r"|\\(?P<escaped>.)|(?P<other>\[.*|.)",
    re.DOTALL,
)

# Stands for `/` in a bracket expression, where it separates no directories. No path contains this character.
BRACKET_SLASH: Final = "\0"

# Parts of a pattern of names: `**` in place of directories or of the rest of the name; or a part of a glob.
NAME_PART: Final = re.compile(
    rf"(?P<directories>(?<=/)\*\*+/)|(?P<any>(?<=/)\*\*+(?=\\/|\Z))|{GLOB_PART.pattern}", re.DOTALL
)


def compile_regex(regex: str) -> Any:
    """Return a regular expression compiled by RE2, with a limit of its memory. Raises re2.error."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_PATTERN_MEMORY_BYTES
    return re2.compile(regex, options)


class NamePattern:
    """Pattern of names of refs, as in `git for-each-ref`: a glob, a name, or the directories that a name starts with.

    It has at most about MAX_PATTERN_CHARACTERS.
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
    """Replace each `/` in a bracket expression, where it separates no directories and matches nothing."""
    return GLOB_PART.sub(
        lambda part: part[0].replace("/", BRACKET_SLASH) if part["items"] else part[0], pattern
    )


def _translate_name_part(part: re.Match[str]) -> str:
    if part["directories"]:
        return "(?:.*/)?"
    return ".*" if part["any"] else translate_part(part)


def translate_part(part: re.Match[str]) -> str:
    """Return the regular expression of a match of GLOB_PART. Raises ValueError for an invalid one."""
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
    ranges = [(first, first), (low, min(high, ".")), (max(low, "0"), high)]
    return "".join(f"{re.escape(start)}-{re.escape(end)}" for start, end in ranges if start <= end)
