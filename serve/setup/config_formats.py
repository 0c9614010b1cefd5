"""Insert, replace and remove one entry (of an MCP server) in the text of a client's JSON or TOML configuration.

`JSON` and `TOML` have the same functions. The rest of a text stays as it is, comments included.

JSON: key order, indentation and the spelling of numbers stay, too. Comments, trailing commas and a byte order mark are
accepted, since clients write them. A copy of the text, called `plain_text`, has spaces in their place, so its offsets
are those of the text.

TOML: a new table is appended as lines, and a table is removed with its lines. All other changes are made with tomlkit,
which keeps the layout: updates of an existing entry, and edits of an entry without a header `[key.name]`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import tomlkit
from tomlkit.items import InlineTable

DEFAULT_INDENT: Final = "  "
_WHITESPACE: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = r'"(?:[^"\\]|\\.)*"'
# Extensions of JSON: comments and a byte order mark; trailing commas. Strings are matched, too, so that no match begins
# inside a string.
_STRING_OR_COMMENT: Final = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?\*/|^\ufeff", re.DOTALL)
_STRING_OR_TRAILING_COMMA: Final = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
# Comma after a value.
_NEXT_COMMA: Final = re.compile(r"\s*(,)")
_INDENT: Final = re.compile(r"[ \t]*")
# White space up to the end of the line, if nothing else follows.
_REST_OF_LINE: Final = re.compile(r"[ \t]*(?=[\r\n])")
# Function that returns the JSON value at an offset of a text, and the offset of the value's end.
_decode_value: Final = json.JSONDecoder().raw_decode


def parse_json(text: str) -> Any:
    """Return the value of a JSON text, which may have comments; {} if the text has no value.

    Raise ValueError if it is invalid.
    """
    plain_text = _blank_extensions(text)
    return json.loads(plain_text) if plain_text.strip() else {}


def format_json_document(key: str, name: str, entry: Any) -> str:
    """Return a JSON text with only this entry."""
    return json.dumps({key: {name: entry}}, indent=DEFAULT_INDENT, ensure_ascii=False) + "\n"


def set_json_entry(text: str, key: str, name: str, entry: Any) -> str:
    """Return the text with `entry` as member `name` of the object at the top-level `key`."""
    plain_text = _blank_extensions(text)
    if not plain_text.strip():
        comment = f"{text.rstrip()}\n" if text.strip() else ""
        return comment + format_json_document(key, name, entry)
    style = _Style.from_text(text, plain_text)
    root = _parse_object(plain_text, _skip_whitespace(plain_text, 0))
    if key not in root.members:
        return style.insert_member(text, plain_text, root, key, {name: entry}, depth=0)
    parent = _parse_object(plain_text, root.members[key].value_start)
    if name not in parent.members:
        return style.insert_member(text, plain_text, parent, name, entry, depth=1)
    member = parent.members[name]
    value = style.format_value(entry, depth=2, is_inline=parent.is_inline(plain_text))
    return text[: member.value_start] + value + text[member.value_end :]


def remove_json_entry(text: str, key: str, name: str, *, keeps_key: bool = False) -> str:
    """Return the text without the entry, and without the object at `key` if nothing else is in it.

    An object with a comment outside the entry stays, because the comment is the user's. With `keeps_key`, the object
    always stays.
    """
    plain_text = _blank_extensions(text)
    root = _parse_object(plain_text, _skip_whitespace(plain_text, 0))
    parent = _parse_object(plain_text, root.members[key].value_start)
    if parent.has_nothing_but(name, text) and not keeps_key:
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

    `sequence`: all members in order. `members`: members by name; only the last one of each name.
    """

    start: int
    end: int
    sequence: tuple[_Member, ...]
    members: dict[str, _Member]

    def is_inline(self, text: str) -> bool:
        """Return whether the object has members and is written on one line."""
        return bool(self.members) and "\n" not in text[self.start : self.end]

    def has_nothing_but(self, name: str, text: str) -> bool:
        """Return whether the object has only this member, and no comment outside it. `text` includes the comments."""
        member = self.members[name]
        around_member = text[self.start + 1 : member.name_start] + text[member.value_end : self.end - 1]
        return len(self.sequence) == 1 and not around_member.strip(" \t\r\n,")


@dataclass(frozen=True, slots=True)
class _Style:
    """Layout of a JSON text. `indent`: indentation of its first member; None if that is on the line of the brace."""

    indent: str | None
    line_ending: str

    @classmethod
    def from_text(cls, text: str, plain_text: str) -> _Style:
        line_ending = "\r\n" if "\r\n" in plain_text else "\n"
        root = _parse_object(plain_text, _skip_whitespace(plain_text, 0))
        if not root.sequence:
            return cls(DEFAULT_INDENT, line_ending)
        first_name = root.sequence[0].name_start
        line_break = plain_text.rfind("\n", root.start, first_name)
        indent = _INDENT.match(text, line_break + 1, first_name) if line_break >= 0 else None
        return cls(indent[0] if indent else None, line_ending)

    def insert_member(
        self, text: str, plain_text: str, parent: _JsonObject, name: str, value: Any, *, depth: int
    ) -> str:
        """Return the text with a member appended to the object `parent` at nesting level `depth`.

        `plain_text`: the copy of the text without comments and trailing commas.
        """
        is_inline = self.indent is None or parent.is_inline(plain_text)
        formatted_value = self.format_value(value, depth=depth + 1, is_inline=is_inline)
        member = f"{json.dumps(name, ensure_ascii=False)}: {formatted_value}"
        line_break, closing_line_break = self._format_line_break(depth + 1), self._format_line_break(depth)
        if not parent.sequence:
            before, after = text[: parent.start + 1], text[parent.end - 1 :]
            content = text[parent.start + 1 : parent.end - 1]
            has_comment = content != plain_text[parent.start + 1 : parent.end - 1]
            if has_comment:
                return f"{before}{line_break}{member}{content}{after}"
            if is_inline:
                return f"{before}{member}{after}"
            return f"{before}{line_break}{member}{closing_line_break}{after}"
        value_end = parent.sequence[-1].value_end
        if is_inline:
            return f"{text[:value_end]}, {member}{text[value_end:]}"
        # A comment after the last member stays on its line. If that member has a trailing comma, the new member gets
        # one, too.
        line_end = _find_line_end(plain_text, value_end)
        has_comma = "," in _blank_comments(text[value_end:line_end])
        comma, trailing_comma = ("", ",") if has_comma else (",", "")
        last_line = f"{text[:value_end]}{comma}{text[value_end:line_end]}"
        return f"{last_line}{line_break}{member}{trailing_comma}{text[line_end:]}"

    def format_value(self, value: Any, *, depth: int, is_inline: bool) -> str:
        """Return the JSON of a member's value. `depth`: nesting level of the member."""
        if is_inline or self.indent is None:
            return json.dumps(value, ensure_ascii=False)
        json_text = json.dumps(value, ensure_ascii=False, indent=self.indent)
        return json_text.replace("\n", self._format_line_break(depth))

    def _format_line_break(self, depth: int) -> str:
        """Return a line ending and the indentation of nesting level `depth`."""
        return self.line_ending + (self.indent or "") * depth


def _parse_object(plain_text: str, start: int) -> _JsonObject:
    """Return the offsets of the object whose opening brace is at `start`, and of its members."""
    sequence: list[_Member] = []
    members: dict[str, _Member] = {}
    offset = _skip_whitespace(plain_text, start + 1)
    while plain_text[offset] != "}":
        name, name_end = _decode_value(plain_text, offset)
        colon = _skip_whitespace(plain_text, name_end)
        value_start = _skip_whitespace(plain_text, colon + 1)
        _, value_end = _decode_value(plain_text, value_start)
        members[name] = _Member(offset, value_start, value_end)
        sequence.append(members[name])
        offset = _skip_whitespace(plain_text, value_end)
        if plain_text[offset] == ",":
            offset = _skip_whitespace(plain_text, offset + 1)
    return _JsonObject(start, offset + 1, tuple(sequence), members)


def _remove_member(text: str, parent: _JsonObject, name: str) -> str:
    """Return the text without a member and the comma after or before it. Comments around the member stay."""
    if parent.has_nothing_but(name, text):
        return text[: parent.start + 1] + text[parent.end - 1 :]
    member = parent.members[name]
    index = parent.sequence.index(member)
    text_without_comments = _blank_comments(text)
    after = text[member.value_end :]
    comma = _NEXT_COMMA.match(text_without_comments, member.value_end)
    if comma:
        after = text[member.value_end : comma.start(1)] + text[comma.end() :]
    if index + 1 < len(parent.sequence):
        return text[: member.name_start] + after.lstrip()
    separator_end = parent.start + 1  # end of the opening brace, or of the comma before the member
    if index:
        separator_end = text_without_comments.index(",", parent.sequence[index - 1].value_end) + 1
    # If the removed member had a trailing comma, the comma before it stays as the trailing comma.
    before = text[: separator_end - 1] if index and not comma else text[:separator_end]
    between = text[separator_end : member.name_start]
    if between.strip() and not _REST_OF_LINE.match(after):
        return before + between + after.lstrip(" \t")  # the line break in `between` may end a comment
    return before + between.rstrip() + after


def _find_line_end(plain_text: str, offset: int) -> int:
    """Return the offset of the line's end if only white space and comments follow `offset`, else `offset`."""
    match = _REST_OF_LINE.match(plain_text, offset)
    return match.end() if match else offset


def _skip_whitespace(text: str, offset: int) -> int:
    match = _WHITESPACE.match(text, offset)
    return match.end() if match else offset


def parse_toml(text: str) -> Any:
    """Return the parsed text. Raise ValueError if it is not TOML."""
    return tomllib.loads(text)


def format_toml_document(key: str, name: str, entry: dict[str, Any]) -> str:
    """Return a TOML text with only this table."""
    table = tomlkit.table()
    table.update(_convert_dicts(entry))
    document = tomlkit.document()
    document[key] = tomlkit.table(is_super_table=True)
    document[key][name] = table
    return tomlkit.dumps(document)


def set_toml_entry(text: str, key: str, name: str, entry: dict[str, Any]) -> str:
    """Return the text with `entry` as the table `[key.name]`."""
    document = tomlkit.parse(text)
    servers: Any = document.get(key)
    if servers is not None and name in servers:
        return _update_table(document, key, name, entry)
    if isinstance(servers, InlineTable):
        servers[name] = _build_inline_table(entry)
        return tomlkit.dumps(document)
    line_ending = "\r\n" if "\r\n" in text else "\n"
    table = format_toml_document(key, name, entry).replace("\n", line_ending)
    if text and not text.endswith("\n"):
        # The new text has no final line break either, so that `_remove_lines` can restore the original exactly.
        return text + line_ending * 2 + table.removesuffix(line_ending)
    return text + (line_ending if text else "") + table


def remove_toml_entry(text: str, key: str, name: str, *, keeps_key: bool = False) -> str:
    """Return the text without the table `[key.name]`.

    A line `[key]` above it stays. If the entry is written within the table `[key]`, which has nothing else, that table
    is removed, too, unless `keeps_key` is set.
    """
    expected_content = parse_toml(text)
    del expected_content[key][name]
    lines = text.splitlines(keepends=True)
    candidates = (_remove_lines(lines, index, key, name) for index in _find_headers(lines, key, name))
    edited_text = next(
        (candidate for candidate in candidates if _has_content(candidate, expected_content, key)), None
    )
    return edited_text or _remove_table(text, key, name, keeps_key=keeps_key)


def _find_headers(lines: list[str], key: str, name: str) -> list[int]:
    """Return the indexes of lines that look like the table's header. They may be lines of a multi-line string."""
    header_pattern = re.compile(rf"\s*\[\s*{_build_key_pattern(key)}\s*\.\s*{_build_key_pattern(name)}\s*\]")
    return [index for index, line in enumerate(lines) if header_pattern.match(line)]


def _remove_lines(lines: list[str], header_index: int, key: str, name: str) -> str:
    """Return the text without the table that begins at `header_index`, and its subtables.

    Comments and blank lines after the last field stay.
    """
    subtable_pattern = re.compile(
        rf"\s*\[\s*{_build_key_pattern(key)}\s*\.\s*{_build_key_pattern(name)}\s*\."
    )
    last_index = header_index
    for index in range(header_index + 1, len(lines)):
        if lines[index].lstrip().startswith("[") and not subtable_pattern.match(lines[index]):
            break
        if lines[index].strip() and not lines[index].lstrip().startswith("#"):
            last_index = index
    before, after = lines[:header_index], lines[last_index + 1 :]
    if before and not before[-1].strip():
        before.pop()  # the blank line that `set_toml_entry` added
    if before and not lines[last_index].endswith("\n"):
        before[-1] = before[-1].rstrip("\r\n")
    return "".join([*before, *after])


def _remove_table(text: str, key: str, name: str, *, keeps_key: bool) -> str:
    """Return the text without an entry that is not written as lines below a header `[key.name]`."""
    document = tomlkit.parse(text)
    servers: Any = document[key]
    del servers[name]
    if not servers and not keeps_key:
        del document[key]
    return tomlkit.dumps(document)


def _update_table(document: tomlkit.TOMLDocument, key: str, name: str, entry: dict[str, Any]) -> str:
    """Return the document's text with the fields of an existing table updated.

    New fields go directly below the header if possible, else to the end. Existing fields that `entry` lacks stay.
    """
    expected_content = document.unwrap()
    expected_content[key][name] = entry
    table: Any = document[key][name]
    new_fields = {field: value for field, value in entry.items() if field not in table}
    for field, value in entry.items():
        if field in table and table[field] != value:
            table[field] = _build_inline_table(value) if isinstance(value, dict) else value
    lines = tomlkit.dumps(document).splitlines(keepends=True)
    new_lines = tomlkit.dumps(_convert_dicts(new_fields))
    for index in _find_headers(lines, key, name):
        text = "".join([*lines[: index + 1], new_lines, *lines[index + 1 :]])
        if _has_content(text, expected_content, key):
            return text
    table.update(_convert_dicts(new_fields))
    return tomlkit.dumps(document)


def _has_content(text: str, expected_content: dict[str, Any], key: str) -> bool:
    """Return whether the text parses to the expected content. An empty table `key` counts as a missing one."""
    try:
        content = parse_toml(text)
    except ValueError:
        return False
    return bool(({key: {}} | content) == ({key: {}} | expected_content))


def _convert_dicts(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an entry, with an inline table in place of each dict."""
    return {
        name: _build_inline_table(value) if isinstance(value, dict) else value
        for name, value in entry.items()
    }


def _build_inline_table(values: dict[str, Any]) -> InlineTable:
    table = tomlkit.inline_table()
    table.update(_convert_dicts(values))
    return table


def _build_key_pattern(key: str) -> str:
    """Return a regular expression for a TOML key, with or without quotation marks and escapes."""
    escaped_key = json.dumps(key, ensure_ascii=False)[1:-1]
    return rf"""["']?(?:{re.escape(key)}|{re.escape(escaped_key)})["']?"""


@dataclass(frozen=True, slots=True)
class ConfigFormat:
    """Functions of a configuration format. An entry is the member `name` of the object at the top-level `key`.

    `parse(text)`: the value of a text. Raises ValueError if it is invalid.
    `format_document(key, name, entry)`: a text with only this entry.
    `set_entry(text, key, name, entry)`, `remove_entry(text, key, name, keeps_key=...)`: the text with or without the
    entry.
    """

    title: str
    parse: Callable[[str], Any]
    format_document: Callable[[str, str, Any], str]
    set_entry: Callable[[str, str, str, Any], str]
    remove_entry: Callable[..., str]


JSON: Final = ConfigFormat("JSON", parse_json, format_json_document, set_json_entry, remove_json_entry)
TOML: Final = ConfigFormat("TOML", parse_toml, format_toml_document, set_toml_entry, remove_toml_entry)
