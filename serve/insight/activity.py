"""Commits, languages and lines over time."""

from __future__ import annotations

from typing import Final

import polars as pl

from stores.frames import Frames

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
