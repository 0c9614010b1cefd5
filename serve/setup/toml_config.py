"""A table put into a TOML text, or taken out of it; comments and everything else stay as they are.

A new table goes to the end, in lines of its own, and comes out by its lines; only what must be changed within a
person's own tables is changed by the library, which keeps their form.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

import tomlkit
from tomlkit.items import InlineTable


def read(text: str) -> Any:
    """What the text says; ValueError when it is not TOML."""
    return tomllib.loads(text)


def shown(key: str, name: str, entry: dict[str, Any]) -> str:
    """A whole text with nothing but the table."""
    table = tomlkit.table()
    table.update(_fields(entry))
    document = tomlkit.document()
    document[key] = tomlkit.table(is_super_table=True)
    document[key][name] = table
    return tomlkit.dumps(document)


def with_entry(text: str, key: str, name: str, entry: dict[str, Any]) -> str:
    """The text with the table of that name among those under the key."""
    document = tomlkit.parse(text)
    servers: Any = document.get(key)
    if servers is not None and name in servers:
        return _renewed(document, key, name, entry)
    if isinstance(servers, InlineTable):
        servers[name] = _inline(entry)
        return tomlkit.dumps(document)
    eol = "\r\n" if "\r\n" in text else "\n"
    table = shown(key, name, entry).replace("\n", eol)
    if text and not text.endswith("\n"):
        return text + eol * 2 + table.removesuffix(eol)  # how `_cut` knows that the text did not end its line
    return text + (eol if text else "") + table


def without_entry(text: str, key: str, name: str) -> str:
    """The text without the table, and without the map when nothing else is in it."""
    expected = read(text)
    del expected[key][name]
    lines = text.splitlines(keepends=True)
    less = (_cut(lines, at, key, name) for at in _headers(lines, key, name))
    return next((text for text in less if _says(text, expected, key)), None) or _without_table(
        text, key, name
    )


def _headers(lines: list[str], key: str, name: str) -> list[int]:
    """Where the table may begin; a line of a longer string may look like it."""
    header = re.compile(rf"\s*\[\s*{_named(key)}\s*\.\s*{_named(name)}\s*\]")
    return [at for at, line in enumerate(lines) if header.match(line)]


def _cut(lines: list[str], first: int, key: str, name: str) -> str:
    """The text without the lines of the table and of those in it; comments and blank lines at its end stay."""
    inside = re.compile(rf"\s*\[\s*{_named(key)}\s*\.\s*{_named(name)}\s*\.")
    last = first
    for at in range(first + 1, len(lines)):
        if lines[at].lstrip().startswith("[") and not inside.match(lines[at]):
            break
        if lines[at].strip() and not lines[at].lstrip().startswith("#"):
            last = at
    before, after = lines[:first], lines[last + 1 :]
    if before and not before[-1].strip():
        before.pop()  # the blank line that came with it
    if before and not lines[last].endswith("\n"):
        before[-1] = before[-1].rstrip("\r\n")
    return "".join([*before, *after])


def _without_table(text: str, key: str, name: str) -> str:
    document = tomlkit.parse(text)
    servers: Any = document[key]
    del servers[name]
    if not servers:
        del document[key]
    return tomlkit.dumps(document)


def _renewed(document: tomlkit.TOMLDocument, key: str, name: str, entry: dict[str, Any]) -> str:
    """The text with the table saying what the entry says; what is new in it stands first."""
    expected = document.unwrap()
    expected[key][name] = entry
    table: Any = document[key][name]
    new = {field: value for field, value in entry.items() if field not in table}
    for field, value in entry.items():
        if field in table and table[field] != value:
            table[field] = _inline(value) if isinstance(value, dict) else value
    lines = tomlkit.dumps(document).splitlines(keepends=True)
    more = tomlkit.dumps(_fields(new))
    for at in _headers(lines, key, name):
        text = "".join([*lines[: at + 1], more, *lines[at + 1 :]])
        if _says(text, expected, key):
            return text
    table.update(_fields(new))
    return tomlkit.dumps(document)


def _says(text: str, expected: dict[str, Any], key: str) -> bool:
    """Whether it says what is expected, a map without entries counting as none."""
    try:
        said = read(text)
    except ValueError:
        return False
    return bool({key: {}} | said == {key: {}} | expected)


def _fields(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: _inline(value) if isinstance(value, dict) else value for name, value in entry.items()}


def _inline(values: dict[str, Any]) -> InlineTable:
    table = tomlkit.inline_table()
    table.update(
        {name: _inline(value) if isinstance(value, dict) else value for name, value in values.items()}
    )
    return table


def _named(name: str) -> str:
    return rf"""["']?{re.escape(name)}["']?"""
