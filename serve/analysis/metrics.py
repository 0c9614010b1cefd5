"""Commits, languages and lines over time.

Where an index's bytes and a run's seconds go.

What is changed and mended most, and what is changed together.

A commit counts as a fix when its subject says so: a convention, so the rate compares files of one history, and says
little across histories.

`open_index`: the index of a repository as frames, by one call.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import polars as pl

from pipeline.git.repository import open_repository
from pipeline.profile import PROFILE_FIELDS
from serve import config
from serve.repositories import place_of
from stores import frames
from stores.errors import LineageError
from stores.frames import FREE, Frames
from stores.index_location import Place

# Steps of a calendar, finest first: what each is called, and about how many hours it has.
STEPS: Final = {
    "1h": ("hour", 1),
    "6h": ("six hours", 6),
    "1d": ("day", 24),
    "1w": ("week", 168),
    "1mo": ("month", 730),
    "3mo": ("quarter", 2_190),
    "1y": ("year", 8_766),
}
# As many bars as a chart of this width can tell apart.
MOST_BARS: Final = 72
# More colours than these cannot be told apart; what is left goes together.
MOST_LANGUAGES: Final = 5
OTHER: Final = "other"


def step(index: Frames) -> str:
    """The finest step that gives few enough bars."""
    span = index.commits.filter("reached").select(
        (pl.col("commit_date").max() - pl.col("commit_date").min()).dt.total_hours()
    )
    hours = span.item() or 0
    return next((name for name, (_, length) in STEPS.items() if hours / length <= MOST_BARS), "1y")


def over_time(index: Frames, every: str) -> pl.DataFrame:
    """For each step: commits, authors, lines added and removed; steps without a commit are there, too."""
    commits = index.commits.filter("reached").select("commit_sha", "commit_date", "author_email")
    lines = index.hunks.group_by("commit_sha").agg(pl.col("added_lines", "removed_lines").sum())
    steps = (
        commits.join(lines, on="commit_sha", how="left")
        .sort("commit_date")
        .group_by_dynamic("commit_date", every=every)
        .agg(
            commits=pl.len(),
            authors=pl.col("author_email").n_unique(),
            added=pl.col("added_lines").sum(),
            removed=pl.col("removed_lines").sum(),
        )
    )
    filled = steps.upsample("commit_date", every=every) if steps.height else steps
    return filled.with_columns(pl.col("commits", "authors", "added", "removed").fill_null(0).cast(pl.Int64))


def languages(index: Frames, every: str) -> pl.DataFrame:
    """For each step and language, the files changed: `hunks`; languages beyond the largest are `other`."""
    named = index.hunks.with_columns(pl.col("language").fill_null("unknown"))
    largest = named.get_column("language").value_counts(sort=True).head(MOST_LANGUAGES).get_column("language")
    return (
        named.join(index.commits.filter("reached").select("commit_sha", "commit_date"), on="commit_sha")
        .with_columns(
            pl.when(pl.col("language").is_in(largest.to_list()))
            .then("language")
            .otherwise(pl.lit(OTHER))
            .alias("language"),
            pl.col("commit_date").dt.truncate(every),
        )
        .group_by("commit_date", "language")
        .agg(hunks=pl.len())
        .sort("commit_date", "language")
    )


# What a person thinks of, and the tables and columns that keep it.
PARTS: Final = {
    "vectors": "what the vector lane compares",
    "diffs": "what answers show",
    "embedded texts": "what vectors were made of",
    "source of symbols": "HEAD's symbols, for agents",
    "words of hunks": "postings of the full-text lane",
    "symbols": "names, touched and at HEAD, and their postings",
    "everything else": "commits, keys, counts",
    FREE: "room in blocks that are not full",
}
_COLUMNS: Final = {"diff": "diffs", "semantic_text": "embedded texts", "source_text": "source of symbols"}
_TABLES: Final = {
    FREE: FREE,
    "vectors": "vectors",
    "hunk_postings": "words of hunks",
    "terms": "words of hunks",
    "hunk_symbols": "symbols",
    "symbol_postings": "symbols",
    "head_symbols": "symbols",
    "head_postings": "symbols",
    "head_chunks": "symbols",
    "head_files": "symbols",
}


# Commits of the sample: enough for the shares to settle, few enough to wait for.
SAMPLE: Final = 25
_LINEAGE: Final = (sys.executable, "-P", "-m", "serve.cli.app")


class RunFailed(LineageError):
    """A run that was to be measured did not end well."""


def parts(index: Frames) -> pl.DataFrame:
    """About how many `bytes` each `part` of an index takes, and what it is for."""
    part = pl.col("column").replace_strict(
        _COLUMNS, default=pl.col("table").replace_strict(_TABLES, default="everything else")
    )
    sizes = index.sizes.group_by(part=part).agg(pl.col("bytes").sum())
    return sizes.with_columns(use=pl.col("part").replace_strict(PARTS)).sort("bytes", descending=True)


def phases(path: Path | str | None = None, *, commits: int = SAMPLE) -> pl.DataFrame:
    """The `seconds` of each `phase` of a run over the newest commits, summed over all workers.

    The run is a real one, `lineage index --profile`, over a clone and into a home that are thrown away.
    """
    root = open_repository(Path(path) if path is not None else config.repository()).root
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "clone")
        environment = config.for_daemon(Path(folder, "home"))
        _run(["git", "clone", "--quiet", f"--depth={commits}", root.as_uri(), str(clone)], environment)
        line = _run([*_LINEAGE, "index", str(clone), "--profile", "--no-progress"], environment).splitlines()[
            -1
        ]
    times = json.loads(line)
    rows = [{"phase": phase, "seconds": times[field] / 1000} for phase, field in PROFILE_FIELDS.items()]
    return pl.DataFrame(rows).sort("seconds", descending=True)


def _run(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunFailed(f"`{command[0]}` failed, so there is nothing to measure.", hint=done.stderr.strip())
    return done.stdout


# Words with which subjects of fixes begin or are about; "prefix" and "fixture" are none.
FIX: Final = (
    r"(?i)\b(fix(e[sd]|ing)?|bug|mend(s|ed)?|repair|regress\w*|crash\w*|broken?|revert\w*|correct(s|ed)?)\b"
)
# A commit that touches more than this says nothing of any two of its files: a rename, a format, a first import.
MOST_TOGETHER: Final = 30
# Fewer common commits are chance.
FEWEST_TOGETHER: Final = 3


def fixes(index: Frames) -> pl.DataFrame:
    """Each reached commit, and whether it is a `fix`."""
    subject = pl.col("message").str.split("\n").list.first()
    return index.commits.filter("reached").select("commit_sha", fix=subject.str.contains(FIX))


def files(index: Frames) -> pl.DataFrame:
    """Files by `changes`, the commits that changed them: how many of them `fixes`, and how many lines."""
    return _by(index, index.hunks, ["file_path"])


def symbols(index: Frames) -> pl.DataFrame:
    """Symbols by `changes`, as `name` with its parents and the file they are in."""
    whole = pl.when(pl.col("parent") == "").then("name").otherwise(pl.col("parent") + "." + pl.col("name"))
    touched = index.symbols.filter(pl.col("confidence") == "ExactSpan").with_columns(name=whole)
    return _by(index, touched.join(index.hunks, on="hunk_id"), ["name", "file_path"])


def co_changes(index: Frames) -> pl.DataFrame:
    """Pairs of files that change together: `together` commits, and that as a `share` of those that change either."""
    changed = index.hunks.join(fixes(index), on="commit_sha").select("commit_sha", "file_path").unique()
    small = changed.filter(pl.len().over("commit_sha") <= MOST_TOGETHER)
    counts = small.group_by("file_path").agg(changes=pl.len())
    pairs = (
        small.join(small, on="commit_sha", suffix="_other")
        .filter(pl.col("file_path") < pl.col("file_path_other"))
        .group_by("file_path", "file_path_other")
        .agg(together=pl.len())
        .filter(pl.col("together") >= FEWEST_TOGETHER)
    )
    either = pl.col("changes") + pl.col("changes_other") - pl.col("together")
    return (
        pairs.join(counts, on="file_path")
        .join(
            counts.rename({"file_path": "file_path_other", "changes": "changes_other"}), on="file_path_other"
        )
        .with_columns(share=pl.col("together") / either)
        .sort("share", "together", "file_path", "file_path_other", descending=[True, True, False, False])
    )


def across_folders(pairs: pl.DataFrame) -> pl.DataFrame:
    """The pairs whose files live in different top folders."""
    top = [pl.col(name).str.extract("^([^/]*)/").fill_null("") for name in ("file_path", "file_path_other")]
    return pairs.filter(top[0] != top[1]).select("file_path", "file_path_other", "together", "share")


def _by(index: Frames, touched: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    per_commit = touched.group_by(*keys, "commit_sha").agg(
        lines=pl.col("added_lines").sum() + pl.col("removed_lines").sum()
    )
    return (
        per_commit.join(fixes(index), on="commit_sha")
        .group_by(keys)
        .agg(changes=pl.len(), fixes=pl.col("fix").sum(), lines=pl.col("lines").sum())
        .with_columns(fix_rate=pl.col("fixes") / pl.col("changes"))
        .sort("changes", "fixes", *keys, descending=[True, True, *([False] * len(keys))])
    )


def place(path: Path | str | None = None) -> Place:
    """Where the index of the repository lives; without a path, of LINEAGE_REPOSITORY or of the working directory."""
    meant = Path(path).expanduser() if path is not None else config.repository()
    return place_of(config.read().home, open_repository(meant))


def open_index(path: Path | str | None = None, *, texts: bool = False) -> Frames:
    """The index of a repository as polars frames, read-only and from one moment; NotIndexed where there is none.

    An index run or a daemon at work is no obstacle, and nothing stays open. `texts`: with diffs, embedded texts and
    the source of symbols, too, which take most of the room.
    """
    return frames.read(place(path), texts=texts)
