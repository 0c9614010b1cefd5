"""What is changed and mended most, and what is changed together.

A commit counts as a fix when its subject says so: a convention, so the rate compares files of one history, and says
little across histories.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from stores.frames import Frames

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
