"""Link operations of a mindmap (short: map). A map has at most one link with the same source, target and label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from mindmap import tree, validation
from mindmap.document import LINK_STYLES, EditResult, Link, Mindmap, compute_edit_timestamp, with_log_entry
from mindmap.nodes import generate_id
from mindmap.tree import shorten_label
from stores.errors import LineageError

# Maximum number of links that the hint of an UnknownLink error lists.
MAX_LINKS_IN_HINT: Final = 5


class BadLink(LineageError):
    """Error for an invalid link, or a removal that gives neither the link's id nor both its ends."""


class UnknownLink(LineageError):
    """Error for the removal of a link that the map does not have."""


@dataclass(frozen=True, slots=True)
class NewLink:
    """A link to add or update.

    If the map has the link already, None for `style` or `notes` keeps the current value, and empty `notes` remove it.
    """

    source: str
    target: str
    label: str = ""
    style: str | None = None
    notes: str | None = None


@dataclass(frozen=True, slots=True)
class LinkRemoval:
    """Links to remove: the link with this `id`; if that is None, the links from `source` to `target`.

    A `label` limits the links from `source` to `target` to links with this label; None removes all of them.
    """

    id: str | None = None
    source: str | None = None
    target: str | None = None
    label: str | None = None


def change_links(
    document: Mindmap, additions: Sequence[NewLink], removals: Sequence[LinkRemoval], now: str
) -> EditResult:
    """Remove links, then add or update links, in one edit."""
    validation.check_batch_size([*additions, *removals], "links")
    links_by_key = {link.key: link for link in document.links}
    removed_keys = [key for removal in removals for key in _find_matching_keys(document, removal)]
    for key in removed_keys:
        links_by_key.pop(key, None)
    removed_count = len(document.links) - len(links_by_key)
    written_links = [_write_link(document, links_by_key, new_link) for new_link in additions]
    if len(links_by_key) > validation.MAX_LINKS:
        raise validation.OverLimit(
            f"A map has at most {validation.MAX_LINKS:,} links.", hint="Remove some, or start another map."
        )
    message = _format_message(document, written_links, removed_count)
    links = tuple(links_by_key.values())
    timestamp = compute_edit_timestamp(document, now)
    new_document = with_log_entry(replace(document, links=links), timestamp, message)
    ids = tuple(link.id for link in written_links)
    return EditResult(new_document, message, ids, link_count=len(written_links) + removed_count)


def _write_link(document: Mindmap, links_by_key: dict[tuple[str, str, str], Link], new_link: NewLink) -> Link:
    """Add or update a link in `links_by_key`, and return it."""
    for node_id in (new_link.source, new_link.target):
        tree.get_node(document, node_id)
    if new_link.style is not None and new_link.style not in LINK_STYLES:
        raise BadLink(
            f"{new_link.style!r} is not a link style.", hint=f"Styles are {', '.join(LINK_STYLES)}."
        )
    label = validation.validate_text(new_link.label, "label", may_be_empty=True)
    notes = validation.validate_optional_text(new_link.notes, "note")
    key = (new_link.source, new_link.target, label)
    link = links_by_key.get(key)
    if link is None:
        # The ids of the links that this edit removes are not used again.
        link_id = generate_id(
            "l_", {link.id for link in links_by_key.values()} | {link.id for link in document.links}
        )
        link = Link(id=link_id, source=new_link.source, target=new_link.target, label=label)
    links_by_key[key] = replace(
        link,
        style=link.style if new_link.style is None else new_link.style,
        notes=link.notes if new_link.notes is None else notes,
    )
    return links_by_key[key]


def _find_matching_keys(document: Mindmap, removal: LinkRemoval) -> list[tuple[str, str, str]]:
    if removal.id is None and (removal.source is None or removal.target is None):
        raise BadLink("The link to remove is not specified.", hint="Give its id, or both its ends.")
    keys = [link.key for link in document.links if _matches(link, removal)]
    if not keys:
        description = removal.id or f"from {removal.source} to {removal.target}" + (
            f" {removal.label!r}" if removal.label else ""
        )
        raise UnknownLink(
            f"There is no link {description} in {document.id}.", hint=_format_unknown_link_hint(document)
        )
    return keys


def _matches(link: Link, removal: LinkRemoval) -> bool:
    if removal.id is not None:
        return link.id == removal.id
    has_same_ends = (link.source, link.target) == (removal.source, removal.target)
    return has_same_ends and removal.label in (None, link.label)


def _format_unknown_link_hint(document: Mindmap) -> str:
    if not document.links:
        return "The map has no links."
    more = (
        f" and {len(document.links) - MAX_LINKS_IN_HINT:,} more"
        if len(document.links) > MAX_LINKS_IN_HINT
        else ""
    )
    descriptions = (
        f"{link.id} ({link.source} -> {link.target} {link.label!r})"
        for link in document.links[:MAX_LINKS_IN_HINT]
    )
    return f"Its links are {', '.join(descriptions)}{more}."


def _format_message(document: Mindmap, written_links: Sequence[Link], removed_count: int) -> str:
    parts = []
    if len(written_links) == 1:
        link = written_links[0]
        ends = (shorten_label(document.nodes[end].label) for end in (link.source, link.target))
        parts.append(
            f"Linked {' -> '.join(map(repr, ends))}"
            + (f": {shorten_label(link.label)}" if link.label else "")
        )
    elif written_links:
        parts.append(f"Linked {len(written_links):,} pairs")
    if removed_count:
        parts.append(f"Removed {removed_count:,} link{'' if removed_count == 1 else 's'}")
    return ", ".join(parts)
