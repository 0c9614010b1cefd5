"""Edits of one entry in a JSON text. Every other byte stays: key order, indentation, spelling of numbers, comments.

Comments, trailing commas and a byte order mark are accepted, as by the clients that write them. Edits find offsets in a
copy of the same length, in which these are replaced by spaces.
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
_TRAILING_COMMA: Final = re.compile(r"[ \t]*,")
_REST_OF_LINE: Final = re.compile(r"[ \t]*(?=[\r\n])")
_decode_value: Final = json.JSONDecoder().raw_decode


def parse(text: str) -> Any:
    """Return the parsed text; an empty text is an empty object. Raise ValueError if it is not JSON."""
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
    style = _Style.from_text(plain)
    root = _parse_object(plain, _skip_whitespace(plain, 0))
    if key not in root.members:
        return style.insert_member(text, plain, root, key, {name: entry}, depth=0)
    servers = _parse_object(plain, root.members[key].value_start)
    if name not in servers.members:
        return style.insert_member(text, plain, servers, name, entry, depth=1)
    existing = servers.members[name]
    value = style.format_value(entry, depth=2, is_inline=servers.is_inline(plain))
    return text[: existing.value_start] + value + text[existing.value_end :]


def remove_entry(text: str, key: str, name: str) -> str:
    """Return the text without the entry, and without the object at `key` if nothing else is in it."""
    plain = _blank_extensions(text)
    root = _parse_object(plain, _skip_whitespace(plain, 0))
    servers = _parse_object(plain, root.members[key].value_start)
    # A comment in the object is the user's, so the object stays.
    has_comments = text[servers.start : servers.end] != plain[servers.start : servers.end]
    if len(servers.members) > 1 or has_comments:
        return _remove_member(text, plain, servers, name)
    return _remove_member(text, plain, root, key)


def _blank_extensions(text: str) -> str:
    """Return the text as plain JSON of the same length, with spaces in place of what JSON does not have."""
    without_comments = _STRING_OR_COMMENT.sub(_blank_unless_string, text)
    return _STRING_OR_TRAILING_COMMA.sub(_blank_unless_string, without_comments)


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
    """Text offsets of a JSON object (braces included) and its members."""

    start: int
    end: int
    members: dict[str, _Member]

    def is_inline(self, text: str) -> bool:
        """Return whether a non-empty object is written on one line."""
        return bool(self.members) and "\n" not in text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class _Style:
    """Layout of a JSON text. `indent`: indentation of one level, None if the text is one line."""

    indent: str | None
    line_ending: str

    @classmethod
    def from_text(cls, text: str) -> _Style:
        eol = "\r\n" if "\r\n" in text else "\n"
        root = _parse_object(text, _skip_whitespace(text, 0))
        if not root.members:
            return cls(DEFAULT_INDENT, eol)
        before = text[root.start + 1 : min(member.name_start for member in root.members.values())]
        return cls(before.rpartition("\n")[2] if "\n" in before else None, eol)

    def insert_member(
        self, text: str, plain: str, parent: _JsonObject, name: str, value: Any, *, depth: int
    ) -> str:
        """Return the text with a member appended to the object `parent` at nesting level `depth`.

        `plain`: the text without comments. A comment behind the last member stays behind it.
        """
        is_inline = self.indent is None or parent.is_inline(plain)
        formatted = self.format_value(value, depth=depth + 1, is_inline=is_inline)
        member = f"{json.dumps(name, ensure_ascii=False)}: {formatted}"
        if parent.members:
            value_end = max(member.value_end for member in parent.members.values())
            if is_inline:
                return f"{text[:value_end]}, {member}{text[value_end:]}"
            line_end = _find_line_end(plain, value_end)
            has_comma = "," in _STRING_OR_COMMENT.sub(_blank_unless_string, text[value_end:line_end])
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


def _parse_object(text: str, start: int) -> _JsonObject:
    """Locate the members of the object at offset `start`. Of members with the same name the last counts."""
    members, offset = {}, _skip_whitespace(text, start + 1)
    while text[offset] != "}":
        name, after_name = _decode_value(text, offset)
        value = _skip_whitespace(text, _skip_whitespace(text, after_name) + 1)
        _, end = _decode_value(text, value)
        members[name] = _Member(offset, value, end)
        offset = _skip_whitespace(text, end)
        if text[offset] == ",":
            offset = _skip_whitespace(text, offset + 1)
    return _JsonObject(start, offset + 1, members)


def _remove_member(text: str, plain: str, parent: _JsonObject, name: str) -> str:
    """Return the text without a member and its separator; comments stay. `plain`: the text without comments."""
    removed = parent.members[name]
    members = sorted(parent.members.values(), key=lambda member: member.name_start)
    index = members.index(removed)
    before, after = text[: removed.name_start], text[removed.value_end :]
    if index + 1 < len(members):  # another member follows
        next_start = members[index + 1].name_start
        comma = plain.index(",", removed.value_end)
        between = text[comma + 1 : next_start]
        return before + (between.lstrip() if between.strip() else "") + text[next_start:]
    trailing_comma = _TRAILING_COMMA.match(text, removed.value_end)
    if index:  # the last member
        comma = plain.index(",", members[index - 1].value_end)
        comment = before[comma + 1 :].rstrip()
        if trailing_comma:
            return before[: comma + 1] + comment + text[trailing_comma.end() :]
        return before[:comma] + comment + after
    # The only member.
    if text[parent.start : parent.end] == plain[parent.start : parent.end]:
        return text[: parent.start + 1] + text[parent.end - 1 :]
    return before + (text[trailing_comma.end() :] if trailing_comma else after)


def _find_line_end(plain: str, offset: int) -> int:
    """Return the end of the line if only white space and comments follow, else the offset."""
    match = _REST_OF_LINE.match(plain, offset)
    return match.end() if match else offset


def _skip_whitespace(text: str, offset: int) -> int:
    match = _WHITESPACE.match(text, offset)
    return match.end() if match else offset
