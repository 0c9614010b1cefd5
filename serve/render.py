"""Answers as text: JSON for programs, a coloured page for people."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from serve.envelope import rfc3339
from serve.standing import Standing
from stores.metadata import Status, Verdict
from stores.places import Place

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from serve.explain.answer import ExplainAnswer, ExplainHit, ExplainMeta
    from serve.find.answer import Answer, Meta, PatternHit

# A person scans several hits at a glance; the whole excerpt is in the JSON.
SHOWN_LINES: Final = 12
# A message's first paragraph says what happened; longer ones are kept to this many lines.
MESSAGE_LINES: Final = 3
# As many symbols as usually fit beside a path.
SHOWN_NAMES: Final = 4

# Histories are written by strangers: an escape sequence in a message must not reach the terminal.
_CONTROLS: Final = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
_VISIBLE: Final = {**_CONTROLS, **dict.fromkeys(range(0x7F, 0xA0), "\N{REPLACEMENT CHARACTER}")}


def as_json(answer: Answer | ExplainAnswer) -> str:
    """The document a question prints; what an answer does not have, or was not to have, is left out of it.

    `compatibility` is there only when there is something to say.
    """
    hits = [asdict(hit) for hit in answer.hits]
    document = {"hits": [_without(hit, "diff_excerpt") for hit in hits], "meta": _meta(answer.meta)}
    return json.dumps(document, ensure_ascii=False, indent=2)


def status_lines(place: Place, standing: Standing) -> str:
    """What `lineage status` prints."""
    indexed_at = rfc3339(standing.indexed_at) if standing.indexed_at else "<none>"
    lines = {
        "repo": str(place.path),
        "id": place.repo_id,
        "last_indexed_commit": standing.last_indexed_commit or "<none>",
        "indexed_at": indexed_at,
        "commits_behind_head": str(standing.behind),
        "compatibility": str(standing.verdict) if standing.verdict else "<none>",
    }
    return "\n".join(f"{name}: {visible(value)}" for name, value in lines.items())


def show(answer: Answer, console: Console) -> None:
    """Print an answer for a person."""
    for number, hit in enumerate(answer.hits, start=1):
        show_hit(_heading(number, hit), hit, console)
    for line in _closing(answer.meta):
        console.print(line)


def show_hit(heading: Text, hit: PatternHit | ExplainHit, console: Console) -> None:
    """Print a hit under its heading."""
    # Said here: a Text forgets what it was told of wrapping when it is printed.
    console.print(heading, no_wrap=True, overflow="ellipsis")
    if hit.diff_excerpt:
        console.print(
            _excerpt(hit.diff_excerpt, truncated=hit.diff_truncated), no_wrap=True, overflow="ellipsis"
        )
    console.print()


def visible(text: str) -> str:
    """The text with control characters shown instead of obeyed."""
    return text.translate(_VISIBLE)


def message(text: str) -> list[str]:
    """A message's subject, and the first lines of what follows it."""
    lines = [line.strip() for line in visible(text).strip().splitlines()] or ["(no message)"]
    body = [line for line in lines[1:] if line]
    rest = ["…"] if len(body) > MESSAGE_LINES else []
    return [lines[0] or "(no message)", *body[:MESSAGE_LINES], *rest]


def _excerpt(diff: str, *, truncated: bool) -> Text:
    """The first lines of a diff, coloured."""
    from rich.text import Text

    lines = [visible(line.removesuffix("\r")) for line in diff.rstrip("\n").split("\n")]
    shown = Text()
    for line in lines[:SHOWN_LINES]:
        shown.append(f"\n    │ {line.expandtabs(4)}", style=_line_style(line))
    if len(lines) > SHOWN_LINES or truncated:
        shown.append("\n    │ …", style="dim")
    return shown[1:]


def _meta(meta: Meta | ExplainMeta) -> dict[str, Any]:
    said = asdict(meta)
    if "explain" in said:
        said["explain"] = _without(said["explain"], "related_commits", "enrichment_limitation")
    said["compatibility"] = _compatibility(meta.compatibility)
    if not meta.compatibility or meta.compatibility.status is Status.COMPATIBLE:
        del said["compatibility"]
    return said


def _without(said: dict[str, Any], *optional: str) -> dict[str, Any]:
    """The object less those of its optional fields that say nothing."""
    return {name: value for name, value in said.items() if name not in optional or value not in (None, ())}


def _compatibility(verdict: Verdict | None) -> dict[str, Any]:
    if verdict is None or verdict.status is Status.COMPATIBLE:
        return {"status": Status.COMPATIBLE.value}
    if verdict.status is Status.UNKNOWN:
        return {"status": verdict.status.value, "missing_components": list(verdict.missing)}
    return {"status": verdict.status.value, "reason": verdict.reason}


def _heading(number: int, hit: PatternHit) -> Text:
    from rich.text import Text

    subject, *more = message(hit.commit_message)
    heading = Text()
    heading.append(f"{number:>2}. ", style="dim").append(subject, style="bold")
    heading.append(f"\n    {hit.commit_sha[:12]}", style="yellow")
    heading.append(f"  {hit.commit_date[:10]}  {visible(hit.commit_author)}  similarity {hit.similarity:.2f}")
    heading.append("".join(f"\n    {line}" for line in more), style="dim")
    heading.append(f"\n    {visible(hit.file_path)}", style="cyan")
    heading.append(f"  {hit.change_kind}", style="dim")
    if names := hit.related_head_symbols:
        more_names = ", …" if len(names) > SHOWN_NAMES else ""
        heading.append(f"  in {', '.join(map(visible, names[:SHOWN_NAMES]))}{more_names}", style="magenta")
    return heading


def _line_style(line: str) -> str:
    styles = {"+": "green", "-": "red", "@": "blue"}
    return styles.get(line[:1], "")


def _closing(meta: Meta) -> list[Text]:
    from rich.text import Text

    profile = meta.query_profile
    closing = [Text(f"asked as {profile.name}: {visible(profile.explanation)}", style="dim")]
    return [Text(visible(meta.hint), style="bold yellow"), *closing] if meta.hint else closing
