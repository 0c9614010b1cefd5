"""An entry put into a JSON text, or taken out of it; every other byte stays: order, indentation, numbers as written.

Comments and trailing commas, which some clients accept, are not JSON: such a text is refused, not guessed at.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

DEFAULT_STEP: Final = "  "
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_READ: Final = json.JSONDecoder().raw_decode


def read(text: str) -> Any:
    """What the text says; ValueError when it is not JSON."""
    return json.loads(text) if text.strip() else {}


def shown(key: str, name: str, entry: Any) -> str:
    """A whole text with nothing but the entry."""
    return json.dumps({key: {name: entry}}, indent=DEFAULT_STEP, ensure_ascii=False) + "\n"


def with_entry(text: str, key: str, name: str, entry: Any) -> str:
    """The text with the entry under that name in the map under that key."""
    if not text.strip():
        return shown(key, name, entry)
    style = _Style.of(text)
    root = _members_of(text, _after_space(text, 0))
    if key not in root.members:
        return style.inserted(text, root, key, {name: entry}, depth=0)
    servers = _members_of(text, root.members[key].start)
    if name not in servers.members:
        return style.inserted(text, servers, name, entry, depth=1)
    old = servers.members[name]
    return text[: old.start] + style.written(entry, depth=2, inline=servers.inline(text)) + text[old.end :]


def without_entry(text: str, key: str, name: str) -> str:
    """The text without the entry, and without the map when nothing else is in it."""
    root = _members_of(text, _after_space(text, 0))
    servers = _members_of(text, root.members[key].start)
    return _cut(text, servers, name) if len(servers.members) > 1 else _cut(text, root, key)


@dataclass(frozen=True, slots=True)
class _Member:
    """Where a member's name begins, and where its value begins and ends."""

    name: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Members:
    """An object's members, and where its braces are."""

    start: int
    end: int
    members: dict[str, _Member]

    def inline(self, text: str) -> bool:
        """Whether a person keeps it on one line."""
        return bool(self.members) and "\n" not in text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class _Style:
    """How the text is laid out: what one level is indented by, and what ends a line; no step: all on one line."""

    step: str | None
    eol: str

    @classmethod
    def of(cls, text: str) -> _Style:
        eol = "\r\n" if "\r\n" in text else "\n"
        root = _members_of(text, _after_space(text, 0))
        if not root.members:
            return cls(DEFAULT_STEP, eol)
        before = text[root.start + 1 : min(member.name for member in root.members.values())]
        return cls(before.rpartition("\n")[2] if "\n" in before else None, eol)

    def inserted(self, text: str, into: _Members, name: str, value: Any, *, depth: int) -> str:
        """The text with a further member at the end of an object."""
        inline = self.step is None or into.inline(text)
        member = (
            f"{json.dumps(name, ensure_ascii=False)}: {self.written(value, depth=depth + 1, inline=inline)}"
        )
        if into.members:
            at = max(member.end for member in into.members.values())
            gap = " " if inline else self._line(depth + 1)
            return f"{text[:at]},{gap}{member}{text[at:]}"
        inside = member if inline else f"{self._line(depth + 1)}{member}{self._line(depth)}"
        return f"{text[: into.start + 1]}{inside}{text[into.end - 1 :]}"

    def written(self, value: Any, *, depth: int, inline: bool) -> str:
        """A value as it stands in an object at this depth."""
        if inline or self.step is None:
            return json.dumps(value, ensure_ascii=False)
        return json.dumps(value, ensure_ascii=False, indent=self.step).replace("\n", self._line(depth))

    def _line(self, depth: int) -> str:
        return self.eol + (self.step or "") * depth


def _members_of(text: str, start: int) -> _Members:
    """The members of the object that begins here; the last of those with the same name, as everybody reads it."""
    members, at = {}, _after_space(text, start + 1)
    while text[at] != "}":
        name, after_name = _READ(text, at)
        value = _after_space(text, _after_space(text, after_name) + 1)
        _, end = _READ(text, value)
        members[name] = _Member(at, value, end)
        at = _after_space(text, end)
        if text[at] == ",":
            at = _after_space(text, at + 1)
    return _Members(start, at + 1, members)


def _cut(text: str, of: _Members, name: str) -> str:
    """The text without a member, and without what divided it from its neighbours."""
    gone = of.members[name]
    places = sorted(of.members.values(), key=lambda member: member.name)
    for before, member in pairwise(places):
        if member == gone:
            return text[: before.end] + text[gone.end :]
        if before == gone:
            return text[: gone.name] + text[member.name :]
    return text[: of.start + 1] + text[of.end - 1 :]


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
