"""What both questions share: how many commits, how the index stands, how long an excerpt is."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from serve import windows
from serve.answers import Compatibility, IndexState, rfc3339
from serve.standing import Standing
from stores.metadata import GO_ON, NAMES, Status, Verdict

FEWEST_HITS: Final = 1
MOST_HITS: Final = 20

# A screenful: enough to judge a precedent by, and five hits still fit an agent's reading.
EXCERPT_LINES: Final = 40
# Longer lines are data or generated code.
EXCERPT_COLUMNS: Final = 240


def index_state(standing: Standing) -> IndexState:
    """The state of the index as an answer tells it."""
    indexed_at = rfc3339(standing.indexed_at) if standing.indexed_at else None
    return IndexState(standing.last_indexed_commit, standing.behind, indexed_at)


def compatibility(verdict: Verdict | None) -> Compatibility:
    """The verdict as an answer tells it; without an index nothing is known."""
    if verdict is None:
        return Compatibility(Status.UNKNOWN.value, missing_components=NAMES)
    if verdict.status is Status.COMPATIBLE:
        return Compatibility(verdict.status.value)
    return Compatibility(verdict.status.value, verdict.reason, verdict.missing)


def index_hints(standing: Standing) -> Iterator[str]:
    """What a person can do about an index that is there."""
    if standing.verdict and standing.verdict.awaits_first_run:
        yield f"The {first_run(standing)}: run `{GO_ON}`."
        return
    if standing.behind:
        yield f"The index is {_commits(standing.behind)} behind HEAD: run `lineage index --incremental`."
    if standing.verdict and (sentence := compatibility_sentence(standing.verdict)):
        yield sentence


def first_run(standing: Standing) -> str:
    """How far the first run came, of which nothing else is to be said before it has ended."""
    verb = "is" if standing.behind == 1 else "are"
    left = f", {_commits(standing.behind)} {verb} left" if standing.behind else ""
    return f"first index run has not ended{left}"


def compatibility_sentence(verdict: Verdict) -> str:
    """The verdict as a sentence that says what to do; empty when there is nothing to do."""
    if verdict.status is Status.COMPATIBLE:
        return ""
    remedy = f": run `{verdict.remedy}`" if verdict.remedy and verdict.remedy not in str(verdict) else ""
    return f"The index is {verdict}{remedy}."


def _commits(count: int) -> str:
    return f"{count:,} commit{'' if count == 1 else 's'}"


def clamped(k: int) -> int:
    """A number of commits, taken into what an answer may have."""
    return max(FEWEST_HITS, min(MOST_HITS, k))


def cut(diff: str, wanted: Collection[str]) -> str:
    """A diff, or as many lines as are shown from where most of the wanted words are; of each line the first columns."""
    lines = diff.split("\n")
    whole = "\n".join(map(narrowed, lines))
    few = len(lines) <= EXCERPT_LINES + (not lines[-1])
    return whole if few else windows.about(whole, wanted, EXCERPT_LINES).text


def narrowed(line: str) -> str:
    """A line's first columns."""
    return line if len(line) <= EXCERPT_COLUMNS else f"{line[:EXCERPT_COLUMNS]}…"
