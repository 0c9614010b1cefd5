"""Answers as text: JSON for programs, a coloured page for people."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from serve import diff_excerpts, text
from serve.api_types import (
    PLAIN,
    ExplainAnswer,
    ExplainHit,
    FindAnswer,
    FindMeta,
    PatternHit,
    document,
    rfc3339,
)
from serve.text import from_here, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from serve.diff_excerpts import Window
    from serve.index_status import CacheState, Standing
    from stores.index_location import Place

# A person scans several hits at a glance, a mark above included; the whole excerpt is in the JSON.
SHOWN_LINES: Final = 12
# A message's first paragraph says what happened; longer ones are kept to this many lines.
MESSAGE_LINES: Final = 3
# As many symbols as usually fit beside a path.
SHOWN_NAMES: Final = 4


def as_json(answer: FindAnswer | ExplainAnswer) -> str:
    """The document a question prints; `compatibility` is there only when there is something to say."""
    said = document(answer)
    meta = answer.meta
    if meta.compatibility.status == "compatible" or meta.index_status.last_indexed_commit is None:
        del said["meta"]["compatibility"]
    return json.dumps(said, ensure_ascii=False, indent=2)


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
    remedy = standing.verdict.remedy if standing.verdict else None
    if remedy and remedy not in lines["compatibility"]:
        lines["remedy"] = from_here(remedy)
    if standing.cache:
        lines["embed_cache"] = _cache_line(standing.cache)
    if standing.unreadable:
        lines["unreadable"] = f"{text.count(standing.unreadable)}; {text.ASK}"
    return "\n".join(f"{name}: {visible(value)}" for name, value in lines.items())


def _cache_line(cache: CacheState) -> str:
    use = cache.use
    size = f"{cache.bytes / 1_000_000:,.1f} MB"
    hits = f", {use.found / use.asked:.0%} of {use.asked:,} texts found in the last run" if use.asked else ""
    return f"{cache.mode}, {use.entries:,} entries, {size}{hits}"


def show(answer: FindAnswer, console: Console, wanted: Collection[str] = ()) -> None:
    """Print an answer for a person; of long changes the lines that have most of the wanted words."""
    for number, hit in enumerate(answer.hits, start=1):
        show_hit(_heading(number, hit), hit, console, wanted)
    for line in _closing(answer.meta):
        console.print(line)


def show_hit(
    heading: Text, hit: PatternHit | ExplainHit, console: Console, wanted: Collection[str] = ()
) -> None:
    """Print a hit under its heading."""
    # Said here: a Text forgets what it was told of wrapping when it is printed.
    console.print(heading, no_wrap=True, overflow="ellipsis")
    if hit.diff_excerpt:
        window = diff_excerpts.about(hit.diff_excerpt, wanted, SHOWN_LINES)
        excerpt = _excerpt(window, truncated=hit.diff_truncated)
        console.print(excerpt, no_wrap=True, overflow="ellipsis")
    console.print()


def message(text: str) -> list[str]:
    """A message's subject, and the first lines of what follows it."""
    # Forges join what their web pages send, whose lines end as those of HTTP do; of the last the line feed may be gone.
    unix = text.strip().replace("\r\n", "\n")
    lines = [line.strip() for line in visible(unix).splitlines()] or ["(no message)"]
    body = [line for line in lines[1:] if line]
    rest = ["…"] if len(body) > MESSAGE_LINES else []
    return [lines[0] or "(no message)", *body[:MESSAGE_LINES], *rest]


def _excerpt(window: Window, *, truncated: bool) -> Text:
    """Lines of a diff, coloured, between marks where there are more."""
    from rich.text import Text

    shown, more = Text(), f"\n    │ {diff_excerpts.MORE}"
    if window.above:
        shown.append(more, style="dim")
    for line in window.lines:
        plain = visible(line.removesuffix("\r"))
        shown.append(f"\n    │ {plain.expandtabs(4)}", style=_line_style(plain))
    if window.below or truncated:
        shown.append(more, style="dim")
    return shown[1:]


def _heading(number: int, hit: PatternHit) -> Text:
    from rich.text import Text

    subject, *more = message(hit.commit_message)
    heading = Text()
    heading.append(f"{number:>2}. ", style="dim").append(subject, style="bold")
    heading.append(f"\n    {hit.commit_sha[:12]}", style="yellow")
    heading.append(f"  {hit.commit_date[:10]}  {visible(hit.commit_author)}  score {hit.combined_score:.2f}")
    heading.append("".join(f"\n    {line}" for line in more), style="dim")
    heading.append(f"\n    {visible(hit.file_path)}", style="cyan")
    heading.append(f"  {hit.change_kind}", style="dim")
    if names := hit.related_head_symbols:
        more_names = ", …" if len(names) > SHOWN_NAMES else ""
        heading.append(f"  in {', '.join(map(visible, names[:SHOWN_NAMES]))}{more_names}", style="magenta")
    if hit.matched is not None:
        heading.append(f"\n    {'weak match; ' if hit.weak else ''}{visible(hit.matched)}", style="dim")
    return heading


def _line_style(line: str) -> str:
    styles = {"+": "green", "-": "red", "@": "blue"}
    return styles.get(line[:1], "")


def _closing(meta: FindMeta) -> list[Text]:
    from rich.text import Text

    profile = meta.query_profile
    taken_for = f"asked as {profile.name}: {visible(profile.explanation)}" if profile != PLAIN else ""
    closing = [Text(taken_for, style="dim")] if taken_for else []
    return [Text(visible(meta.hint), style="bold yellow"), *closing] if meta.hint else closing
