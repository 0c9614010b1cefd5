"""Edits of one entry in a JSON text. Every other byte stays: key order, indentation, spelling of numbers, comments.

Comments, trailing commas and a byte order mark are accepted, as by the clients that write them. Such text is first
copied to plain JSON with spaces in their place, so that offsets in the copy are valid in the text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

DEFAULT_INDENT: Final = "  "
_WHITESPACE: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = r'"(?:[^"\\]|\\.)*"'
_STRING_OR_COMMENT: Final = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?\*/|^\ufeff", re.DOTALL)
_STRING_OR_TRAILING_COMMA: Final = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
_NEXT_COMMA: Final = re.compile(r"\s*(,)")
_INDENT: Final = re.compile(r"[ \t]*")
_REST_OF_LINE: Final = re.compile(r"[ \t]*(?=[\r\n])")
_decode_value: Final = json.JSONDecoder().raw_decode


def parse(text: str) -> Any:
    """Return the value of a JSON text with comments; {} if it has none. Raise ValueError if it is invalid."""
    plain = _blank_extensions(text)
    return json.loads(plain) if plain.strip() else {}


def format_document(key: str, name: str, entry: Any) -> str:
    """Return a JSON text with only this entry."""
    return json.dumps({key: {name: entry}}, indent=DEFAULT_INDENT, ensure_ascii=False) + "\n"


def set_entry(text: str, key: str, name: str, entry: Any) -> str:
    """Return the text with `entry` as member `name` of the object at the top-level `key`."""
    plain = _blank_extensions(text)
    if not plain.strip():
        comment = f"{text.rstrip()}\n" if text.strip() else ""
        return comment + format_document(key, name, entry)
    style = _Style.from_text(text, plain)
    root = _parse_object(plain, _skip_whitespace(plain, 0))
    if key not in root.members:
        return style.insert_member(text, plain, root, key, {name: entry}, depth=0)
    parent = _parse_object(plain, root.members[key].value_start)
    if name not in parent.members:
        return style.insert_member(text, plain, parent, name, entry, depth=1)
    existing = parent.members[name]
    value = style.format_value(entry, depth=2, is_inline=parent.is_inline(plain))
    return text[: existing.value_start] + value + text[existing.value_end :]


def remove_entry(text: str, key: str, name: str) -> str:
    """Return the text without the entry, and without the object at `key` if nothing else is in it.

    A comment in that object, but not in the entry, is the user's, so the object stays.
    """
    plain = _blank_extensions(text)
    root = _parse_object(plain, _skip_whitespace(plain, 0))
    parent = _parse_object(plain, root.members[key].value_start)
    if parent.has_nothing_but(name, text):
        return _remove_member(text, root, key)
    return _remove_member(text, parent, name)


def _blank_extensions(text: str) -> str:
    """Replace comments, trailing commas and a byte order mark with spaces. The length stays the same."""
    return _STRING_OR_TRAILING_COMMA.sub(_blank_unless_string, _blank_comments(text))


def _blank_comments(text: str) -> str:
    return _STRING_OR_COMMENT.sub(_blank_unless_string, text)


def _blank_unless_string(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else " " * len(match[0])


@dataclass(frozen=True, slots=True)
class _Member:
    """Text offsets of a member of an object: start of its name, start and end of its value."""

    name_start: int
    value_start: int
    value_end: int


@dataclass(frozen=True, slots=True)
class _JsonObject:
    """Text offsets of a JSON object (braces included) and its members.

    `sequence`: all members in order. `members`: by name; of members with the same name, the last.
    """

    start: int
    end: int
    sequence: tuple[_Member, ...]
    members: dict[str, _Member]

    def is_inline(self, text: str) -> bool:
        """Return whether a non-empty object is written on one line."""
        return bool(self.members) and "\n" not in text[self.start : self.end]

    def has_nothing_but(self, name: str, text: str) -> bool:
        """Return whether `text` has no other member and no comment in the object, except in the member."""
        member = self.members[name]
        rest = text[self.start + 1 : member.name_start] + text[member.value_end : self.end - 1]
        return len(self.sequence) == 1 and not rest.strip(" \t\r\n,")


@dataclass(frozen=True, slots=True)
class _Style:
    """Layout of a JSON text. `indent`: indentation of one level, None if the text is one line."""

    indent: str | None
    line_ending: str

    @classmethod
    def from_text(cls, text: str, plain: str) -> _Style:
        line_ending = "\r\n" if "\r\n" in plain else "\n"
        root = _parse_object(plain, _skip_whitespace(plain, 0))
        if not root.sequence:
            return cls(DEFAULT_INDENT, line_ending)
        first_name = root.sequence[0].name_start
        line_break = plain.rfind("\n", root.start, first_name)
        indent = _INDENT.match(text, line_break + 1, first_name) if line_break >= 0 else None
        return cls(indent[0] if indent else None, line_ending)

    def insert_member(
        self, text: str, plain: str, parent: _JsonObject, name: str, value: Any, *, depth: int
    ) -> str:
        """Return the text with a member appended to the object `parent` at nesting level `depth`.

        `plain`: the text without comments. A comment behind the last member stays behind it.
        """
        is_inline = self.indent is None or parent.is_inline(plain)
        formatted = self.format_value(value, depth=depth + 1, is_inline=is_inline)
        member = f"{json.dumps(name, ensure_ascii=False)}: {formatted}"
        if parent.sequence:
            value_end = parent.sequence[-1].value_end
            if is_inline:
                return f"{text[:value_end]}, {member}{text[value_end:]}"
            line_end = _find_line_end(plain, value_end)
            has_comma = "," in _blank_comments(text[value_end:line_end])
            comma, trailing_comma = ("", ",") if has_comma else (",", "")
            new_line = f"{self._format_line_break(depth + 1)}{member}{trailing_comma}"
            return f"{text[:value_end]}{comma}{text[value_end:line_end]}{new_line}{text[line_end:]}"
        content = (
            member
            if is_inline
            else f"{self._format_line_break(depth + 1)}{member}{self._format_line_break(depth)}"
        )
        if (
            text[parent.start : parent.end] != plain[parent.start : parent.end]
        ):  # a comment in an empty object
            content = f"{self._format_line_break(depth + 1)}{member}"
            return f"{text[: parent.start + 1]}{content}{text[parent.start + 1 :]}"
        return f"{text[: parent.start + 1]}{content}{text[parent.end - 1 :]}"

    def format_value(self, value: Any, *, depth: int, is_inline: bool) -> str:
        """Return the JSON of a member's value. `depth`: nesting level of the member."""
        if is_inline or self.indent is None:
            return json.dumps(value, ensure_ascii=False)
        formatted = json.dumps(value, ensure_ascii=False, indent=self.indent)
        return formatted.replace("\n", self._format_line_break(depth))

    def _format_line_break(self, depth: int) -> str:
        return self.line_ending + (self.indent or "") * depth


def _parse_object(plain: str, start: int) -> _JsonObject:
    """Locate the members of the object at offset `start`."""
    names, sequence, name_start = [], [], _skip_whitespace(plain, start + 1)
    while plain[name_start] != "}":
        name, name_end = _decode_value(plain, name_start)
        value_start = _skip_whitespace(plain, _skip_whitespace(plain, name_end) + 1)
        _, value_end = _decode_value(plain, value_start)
        names.append(name)
        sequence.append(_Member(name_start, value_start, value_end))
        name_start = _skip_whitespace(plain, value_end)
        if plain[name_start] == ",":
            name_start = _skip_whitespace(plain, name_start + 1)
    return _JsonObject(start, name_start + 1, tuple(sequence), dict(zip(names, sequence, strict=True)))


def _remove_member(text: str, parent: _JsonObject, name: str) -> str:
    """Return the text without a member and its separator; comments before and after it stay."""
    if parent.has_nothing_but(name, text):
        return text[: parent.start + 1] + text[parent.end - 1 :]
    removed = parent.members[name]
    index = parent.sequence.index(removed)
    without_comments = _blank_comments(text)
    comma = _NEXT_COMMA.match(without_comments, removed.value_end)
    after = (
        text[removed.value_end : comma.start(1)] + text[comma.end() :] if comma else text[removed.value_end :]
    )
    if index + 1 < len(parent.sequence):
        return text[: removed.name_start] + after.lstrip()
    separator_end = parent.start + 1
    if index:
        separator_end = without_comments.index(",", parent.sequence[index - 1].value_end) + 1
    # The comma before the member stays as a trailing comma if the member had one.
    before = text[: separator_end - 1] if index and not comma else text[:separator_end]
    space = text[separator_end : removed.name_start]
    if space.strip() and not _REST_OF_LINE.match(after):
        return before + space + after.lstrip(" \t")  # the line break ends a comment
    return before + space.rstrip() + after


def _find_line_end(plain: str, offset: int) -> int:
    """Return the end of the line if only white space and comments follow, else the offset."""
    match = _REST_OF_LINE.match(plain, offset)
    return match.end() if match else offset


def _skip_whitespace(text: str, offset: int) -> int:
    match = _WHITESPACE.match(text, offset)
    return match.end() if match else offset
