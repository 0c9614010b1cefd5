"""Changes of a map's links; one is known by from, to and label together, and there is never a second one like it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from mindmap import tree, validation
from mindmap.document import LINK_STYLES, Edited, Link, Mindmap, logged, stamp
from mindmap.nodes import fresh_id, shortened
from stores.errors import LineageError

LINKS_NAMED: Final = 5


class BadLink(LineageError):
    """A link that cannot be as it is asked for."""


class UnknownLink(LineageError):
    """No link like this in the map."""


@dataclass(frozen=True, slots=True)
class NewLink:
    """A link to be there; where it is already, a style and notes that are given replace its own."""

    source: str
    target: str
    label: str = ""
    style: str | None = None
    notes: str | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """Links to be removed: the one with this id, or those from one node to another, with this label if one is given."""

    id: str | None = None
    source: str | None = None
    target: str | None = None
    label: str | None = None


def change_links(document: Mindmap, added: Sequence[NewLink], removed: Sequence[Cut], now: str) -> Edited:
    """Remove links and write others, in one step."""
    validation.batch([*added, *removed], "links")
    kept = {link.triple: link for link in document.links}
    cut = [triple for asked in removed for triple in _meant(document, asked)]
    for triple in cut:
        kept.pop(triple, None)
    gone = len(document.links) - len(kept)
    written = [_write(document, kept, new) for new in added]
    if len(kept) > validation.MOST_LINKS:
        raise validation.OverLimit(
            f"A map has at most {validation.MOST_LINKS:,} links.", hint="Remove some, or begin another map."
        )
    message = _message(document, written, gone)
    moment = stamp(document, now)
    changed = logged(replace(document, links=tuple(kept.values())), moment, message)
    return Edited(changed, message, tuple(link.id for link in written), links=len(written) + gone)


def _write(document: Mindmap, kept: dict[tuple[str, str, str], Link], new: NewLink) -> Link:
    for end in (new.source, new.target):
        tree.find(document, end)
    if new.style is not None and new.style not in LINK_STYLES:
        raise BadLink(f"{new.style!r} is no style of a link.", hint=f"Styles are {', '.join(LINK_STYLES)}.")
    label = validation.text(new.label, "label", empty=True)
    notes = validation.optional(new.notes, "note")
    triple = (new.source, new.target, label)
    link = kept.get(triple)
    if link is None:
        made = fresh_id("l_", {link.id for link in kept.values()} | {link.id for link in document.links})
        link = Link(id=made, source=new.source, target=new.target, label=label)
    kept[triple] = replace(
        link,
        style=link.style if new.style is None else new.style,
        notes=link.notes if new.notes is None else notes,
    )
    return kept[triple]


def _meant(document: Mindmap, asked: Cut) -> list[tuple[str, str, str]]:
    if asked.id is None and (asked.source is None or asked.target is None):
        raise BadLink("It is not said which link is to go.", hint="Give its id, or both its ends.")
    found = [link.triple for link in document.links if _matches(link, asked)]
    if not found:
        what = asked.id or f"from {asked.source} to {asked.target}" + (
            f" {asked.label!r}" if asked.label else ""
        )
        raise UnknownLink(f"There is no link {what} in {document.id}.", hint=_there(document))
    return found


def _matches(link: Link, asked: Cut) -> bool:
    if asked.id is not None:
        return link.id == asked.id
    ends = (link.source, link.target) == (asked.source, asked.target)
    return ends and asked.label in (None, link.label)


def _there(document: Mindmap) -> str:
    if not document.links:
        return "It has no links."
    more = f" and {len(document.links) - LINKS_NAMED:,} more" if len(document.links) > LINKS_NAMED else ""
    shown = (
        f"{link.id} ({link.source} -> {link.target} {link.label!r})" for link in document.links[:LINKS_NAMED]
    )
    return f"There are {', '.join(shown)}{more}."


def _message(document: Mindmap, written: Sequence[Link], gone: int) -> str:
    said = []
    if len(written) == 1:
        link = written[0]
        ends = (shortened(document.nodes[end].label) for end in (link.source, link.target))
        said.append(
            f"Linked {' -> '.join(map(repr, ends))}" + (f": {shortened(link.label)}" if link.label else "")
        )
    elif written:
        said.append(f"Linked {len(written):,} pairs")
    if gone:
        said.append(f"Removed {gone:,} link{'' if gone == 1 else 's'}")
    return ", ".join(said)
