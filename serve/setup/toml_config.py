"""Edits of one table in a TOML text. Comments and everything else stay as they are.

A new table is appended as separate lines and removed line by line. Only changes within the user's tables are made with
tomlkit, which keeps their layout.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

import tomlkit
from tomlkit.items import InlineTable


def parse(text: str) -> Any:
    """Return the parsed text. Raise ValueError if it is not TOML."""
    return tomllib.loads(text)


def format_document(key: str, name: str, entry: dict[str, Any]) -> str:
    """Return a TOML text with only this table."""
    table = tomlkit.table()
    table.update(_convert_inline_tables(entry))
    document = tomlkit.document()
    document[key] = tomlkit.table(is_super_table=True)
    document[key][name] = table
    return tomlkit.dumps(document)


def set_entry(text: str, key: str, name: str, entry: dict[str, Any]) -> str:
    """Return the text with `entry` as the table `[key.name]`."""
    document = tomlkit.parse(text)
    servers: Any = document.get(key)
    if servers is not None and name in servers:
        return _update_table(document, key, name, entry)
    if isinstance(servers, InlineTable):
        servers[name] = _build_inline_table(entry)
        return tomlkit.dumps(document)
    line_ending = "\r\n" if "\r\n" in text else "\n"
    table = format_document(key, name, entry).replace("\n", line_ending)
    if text and not text.endswith("\n"):
        # The table is written without a final line break, so that `_remove_lines` restores a text without one.
        return text + line_ending * 2 + table.removesuffix(line_ending)
    return text + (line_ending if text else "") + table


def remove_entry(text: str, key: str, name: str) -> str:
    """Return the text without the table, and without the table `key` if nothing else is in it."""
    expected_content = parse(text)
    del expected_content[key][name]
    lines = text.splitlines(keepends=True)
    candidates = (_remove_lines(lines, index, key, name) for index in _find_headers(lines, key, name))
    edited_text = next(
        (candidate for candidate in candidates if _has_content(candidate, expected_content, key)), None
    )
    return edited_text or _remove_table(text, key, name)


def _find_headers(lines: list[str], key: str, name: str) -> list[int]:
    """Return the indexes of lines that look like the table's header. Lines of a multi-line string may look so too."""
    header_pattern = re.compile(rf"\s*\[\s*{_build_key_pattern(key)}\s*\.\s*{_build_key_pattern(name)}\s*\]")
    return [index for index, line in enumerate(lines) if header_pattern.match(line)]


def _remove_lines(lines: list[str], first: int, key: str, name: str) -> str:
    """Return the text without the table at line `first` and its subtables. Comments and blank lines after it stay."""
    subtable_pattern = re.compile(
        rf"\s*\[\s*{_build_key_pattern(key)}\s*\.\s*{_build_key_pattern(name)}\s*\."
    )
    last = first
    for index in range(first + 1, len(lines)):
        if lines[index].lstrip().startswith("[") and not subtable_pattern.match(lines[index]):
            break
        if lines[index].strip() and not lines[index].lstrip().startswith("#"):
            last = index
    before, after = lines[:first], lines[last + 1 :]
    if before and not before[-1].strip():
        before.pop()  # the blank line that `set_entry` added
    if before and not lines[last].endswith("\n"):
        before[-1] = before[-1].rstrip("\r\n")
    return "".join([*before, *after])


def _remove_table(text: str, key: str, name: str) -> str:
    document = tomlkit.parse(text)
    servers: Any = document[key]
    del servers[name]
    if not servers:
        del document[key]
    return tomlkit.dumps(document)


def _update_table(document: tomlkit.TOMLDocument, key: str, name: str, entry: dict[str, Any]) -> str:
    """Return the text with the fields of the entry in its table. New fields come first."""
    expected_content = document.unwrap()
    expected_content[key][name] = entry
    table: Any = document[key][name]
    new_fields = {field: value for field, value in entry.items() if field not in table}
    for field, value in entry.items():
        if field in table and table[field] != value:
            table[field] = _build_inline_table(value) if isinstance(value, dict) else value
    lines = tomlkit.dumps(document).splitlines(keepends=True)
    new_lines = tomlkit.dumps(_convert_inline_tables(new_fields))
    for index in _find_headers(lines, key, name):
        text = "".join([*lines[: index + 1], new_lines, *lines[index + 1 :]])
        if _has_content(text, expected_content, key):
            return text
    table.update(_convert_inline_tables(new_fields))
    return tomlkit.dumps(document)


def _has_content(text: str, expected_content: dict[str, Any], key: str) -> bool:
    """Return whether the text parses to the expected content. An empty table `key` counts as a missing one."""
    try:
        parsed = parse(text)
    except ValueError:
        return False
    return bool({key: {}} | parsed == {key: {}} | expected_content)


def _convert_inline_tables(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _build_inline_table(value) if isinstance(value, dict) else value
        for name, value in entry.items()
    }


def _build_inline_table(values: dict[str, Any]) -> InlineTable:
    table = tomlkit.inline_table()
    table.update(_convert_inline_tables(values))
    return table


def _build_key_pattern(name: str) -> str:
    return rf"""["']?{re.escape(name)}["']?"""
