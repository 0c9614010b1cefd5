"""Filters: is every lane's top 100 the exhaustive ranking, filtered?

python -m tests.eval.filters CLONE...

The exhaustive side asks without filters and without a limit, and filters here, by its own reading of what
`language`, `since`, `path` and `author` mean. Questions are subjects of the history's own commits.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
import polars as pl
from pathspec import GitIgnoreSpec

from pipeline.encoders.base import Encoder, OnnxEncoder
from pipeline.git.repository import open_repository
from pipeline.text import words
from serve.index_status import standing
from serve.search.cache import Seen, see
from stores import fulltext, vector_search
from stores.filters import Chosen, Where, chosen
from stores.snapshot import LANE_DEPTH, Ranked
from stores.vector_search import Texts
from stores.whitening import Space
from tests.bench import indexes
from tests.bench.histories import cut
from tests.bench.programs import lineage
from tests.bench.report import arguments, say, show, workspace

QUESTIONS: Final = 8
EVERYTHING: Final = 1 << 40

_HUNKS: Final = """
SELECT hunk_id, language, file_path, commit_date, author_name, author_email
FROM hunks JOIN commits USING (commit_sha) ORDER BY hunk_id"""
_SUBJECTS: Final = """
SELECT split_part(message, chr(10), 1) FROM commits
WHERE length(message) > 20 ORDER BY commit_date, commit_sha"""

Lane = Callable[[str, Chosen, int], Sequence[Ranked]]
Lanes = dict[str, Callable[[str, Where, int], Sequence[Ranked]]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One question asked of one lane under one filter; `expected` is how many hunks there were to find."""

    lane: str
    filtered: str
    equal: bool
    expected: int


def main() -> int:
    asked = arguments(__doc__ or "")
    found: list[Comparison] = []
    for clone in asked.clones:
        with workspace() as folder:
            history = cut(clone, folder / "clone", asked.commits)
            lineage(folder / "home", "index", history.path, "--no-progress")
            found += compared(history.path, folder / "home", OnnxEncoder())
    show(table(found))
    wrong = sum(not comparison.equal for comparison in found)
    say(f"{len(found)} comparisons, {wrong} differ")
    return int(wrong > 0)


def compared(repository: Path, home: Path, encoder: Encoder) -> list[Comparison]:
    """Every lane under every filter."""
    with indexes.opened(repository, home) as connection:
        reach = standing(open_repository(repository), connection).reach
        hunks = connection.execute(_HUNKS).pl()
        lanes = _lanes(connection, encoder, see(connection, reach))
        return list(_comparisons(lanes, _questions(connection), hunks))


def table(found: Sequence[Comparison]) -> pl.DataFrame:
    """Comparisons by lane and filter."""
    rows = pl.DataFrame([(c.lane, c.filtered, c.equal, c.expected) for c in found], orient="row")
    rows.columns = ["lane", "filter", "equal", "expected"]
    return rows.group_by("lane", "filter", maintain_order=True).agg(
        pl.len().alias("asked"),
        pl.col("equal").sum(),
        pl.col("expected").mean().round(1).alias("hunks expected"),
    )


def _comparisons(lanes: Lanes, questions: Sequence[str], hunks: pl.DataFrame) -> Iterator[Comparison]:
    wheres = {name: (where, set(kept(hunks, where))) for name, where in _filters(hunks).items()}
    for lane, ask in lanes.items():
        for question in questions:
            exhaustive = ask(question, Where(), EVERYTHING)
            for name, (where, keep) in wheres.items():
                expected = [hit for hit in exhaustive if hit.hunk_id in keep][:LANE_DEPTH]
                equal = list(ask(question, where, LANE_DEPTH)) == expected
                yield Comparison(lane, name, equal, len(expected))


def kept(hunks: pl.DataFrame, where: Where) -> list[int]:
    """Hunks that pass a filter, read off the rows one by one."""
    spec = GitIgnoreSpec.from_lines([where.path]) if where.path is not None else None
    author = where.author.lower() if where.author is not None else ""
    return [
        row["hunk_id"]
        for row in hunks.iter_rows(named=True)
        if (where.language is None or row["language"] == where.language)
        and (where.since is None or row["commit_date"] >= where.since)
        and (spec is None or spec.match_file(row["file_path"]))
        and author in f"{row['author_name']} <{row['author_email']}>".lower()
    ]


def _filters(hunks: pl.DataFrame) -> dict[str, Where]:
    """Filters that keep much, little and nothing of this history, alone and together."""
    language = _most_common(hunks["language"].drop_nulls().to_list())
    extension = _most_common([Path(path).suffix for path in hunks["file_path"] if Path(path).suffix])
    folder = _most_common([path.partition("/")[0] for path in hunks["file_path"] if "/" in path])
    author = _most_common(hunks["author_name"].to_list())
    dates = hunks["commit_date"].sort()
    half, tenth = dates[len(dates) // 2], dates[len(dates) * 9 // 10]
    return {
        f"language {language}": Where(language=language),
        "language klingon": Where(language="klingon"),
        "since, newer half": Where(since=half),
        "since, newest tenth": Where(since=tenth),
        f"path *{extension}": Where(path=f"*{extension}"),
        f"path /{folder}/": Where(path=f"/{folder}/"),
        "author, most active": Where(author=author.upper()),
        "all together": Where(language, half, f"/{folder}/", author),
    }


def _most_common(values: Sequence[str]) -> str:
    # Equal counts are settled by name, so that every run asks the same.
    return min(Counter(values).items(), key=lambda entry: (-entry[1], entry[0]))[0]


def _questions(connection: duckdb.DuckDBPyConnection) -> list[str]:
    subjects = [subject for (subject,) in connection.execute(_SUBJECTS).fetchall()]
    return subjects[:: max(1, len(subjects) // QUESTIONS)][:QUESTIONS]


def _lanes(connection: duckdb.DuckDBPyConnection, encoder: Encoder, seen: Seen) -> Lanes:
    snapshot = seen.snapshot
    unwhitened = vector_search.load(connection, snapshot, space=Space.raw())

    def nearest(texts: Texts) -> Lane:
        return lambda question, chosen, limit: vector_search.ask(
            connection, snapshot, texts, encoder.encode([question])[0], chosen, limit=limit
        )

    def by_text(question: str, chosen: Chosen, limit: int) -> Sequence[Ranked]:
        found = fulltext.look_up(connection, snapshot, words(question))
        return fulltext.hunk_text(snapshot, found, chosen, limit=limit)

    def by_names(question: str, chosen: Chosen, limit: int) -> Sequence[Ranked]:
        found = fulltext.look_up(connection, snapshot, words(question))
        return fulltext.symbol_names(connection, snapshot, found, chosen, limit=limit)

    def filtered(lane: Lane) -> Callable[[str, Where, int], Sequence[Ranked]]:
        return lambda question, where, limit: lane(question, chosen(connection, snapshot, where), limit)

    lanes = {
        "vector": nearest(seen.texts),
        "vector, raw": nearest(unwhitened),
        "hunk text": by_text,
        "symbol names": by_names,
    }
    return {name: filtered(lane) for name, lane in lanes.items()}


if __name__ == "__main__":
    sys.exit(main())
