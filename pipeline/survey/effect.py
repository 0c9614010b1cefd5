"""Patterns -> the commits and hunks they would leave out, by the same matching that the index does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from pathspec import GitIgnoreSpec


@dataclass(frozen=True, slots=True)
class Effect:
    """What patterns do: `hunks` are left out, of `commits`; `whole` of these have nothing else, and are skipped."""

    hunks: int
    commits: int
    whole: int


def effect(patterns: Sequence[str], changes: pl.DataFrame, paths: pl.DataFrame) -> Effect:
    """What these patterns together leave out."""
    spec = GitIgnoreSpec.from_lines(patterns, backend="simple")
    out = paths.filter(pl.Series([spec.match_file(name) for name in paths["name"]], dtype=pl.Boolean))
    marked = changes.with_columns(pl.col("path").is_in(out["path"].implode()).alias("out"))
    each = marked.group_by("commit").agg(pl.col("out").any().alias("some"), pl.col("out").all().alias("all"))
    return Effect(int(marked["out"].sum()), int(each["some"].sum()), int(each["all"].sum()))
