"""Data frames about a history: activity, hotspots, co-changes, index size and run time.

Notebooks and `lineage related` use them, so charts and answers have the same numbers. `open_index` reads the index of a
repository. A hunk is the diff of one file in one commit. A commit counts as a fix if its subject has a word such as
`fix`. Compare fix rates only within one history, because histories word their subjects differently.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import polars as pl

from pipeline.file_classification import classify_kind
from pipeline.git.repository import open_repository
from pipeline.profile import PROFILE_FIELDS, load_times
from serve import config
from serve.repositories import locate_index, open_sql
from stores import frames
from stores.frames import FREE_SPACE, Frames, HistoryFrames
from stores.index_location import IndexLocation
from stores.sql import retry_lost_message

# Calendar steps of a chart as polars intervals, shortest first, each with its name and approximate hours.
CALENDAR_STEPS: Final = {
    "1h": ("hour", 1),
    "6h": ("six hours", 6),
    "1d": ("day", 24),
    "1w": ("week", 168),
    "1mo": ("month", 730),
    "3mo": ("quarter", 2_190),
    "1y": ("year", 8_766),
}
# Maximum number of bars of a chart. More are too narrow in 900 pixels.
MAX_BARS: Final = 72
# Maximum number of languages with a colour of their own in a chart. The others are grouped.
MAX_LANGUAGES: Final = 5
OTHER_LANGUAGES: Final = "other"


def choose_step(index: Frames) -> str:
    """Return the shortest of CALENDAR_STEPS that divides the history into at most MAX_BARS bars, or else a year."""
    span_frame = _list_dated_commits(index).select(
        (pl.col("commit_date").max() - pl.col("commit_date").min()).dt.total_hours()
    )
    hours = span_frame.item() or 0  # None without commits
    return next(
        (step for step, (_, step_hours) in CALENDAR_STEPS.items() if hours / step_hours <= MAX_BARS), "1y"
    )


def count_activity(index: Frames, step: str) -> pl.DataFrame:
    """Count `commits`, `authors`, and `added` and `removed` lines per calendar step; 0 in steps without commits."""
    commits = _list_dated_commits(index)
    lines = index.hunks.group_by("commit_sha").agg(pl.col("added_lines", "removed_lines").sum())
    steps = (
        commits.join(lines, on="commit_sha", how="left")
        .sort("commit_date")
        .group_by_dynamic("commit_date", every=step)
        .agg(
            commits=pl.len(),
            authors=pl.col("author_email").n_unique(),
            added=pl.col("added_lines").sum(),
            removed=pl.col("removed_lines").sum(),
        )
    )
    all_steps = steps.upsample("commit_date", every=step) if steps.height else steps
    return all_steps.with_columns(
        pl.col("commits", "authors", "added", "removed").fill_null(0).cast(pl.Int64)
    )


def count_language_activity(index: Frames, step: str) -> pl.DataFrame:
    """Count `hunks` per calendar step and language. All but the MAX_LANGUAGES largest languages become `other`."""
    hunks = index.hunks.join(_list_dated_commits(index), on="commit_sha").with_columns(
        pl.col("language").fill_null("unknown")
    )
    largest = hunks.get_column("language").value_counts(sort=True).head(MAX_LANGUAGES).get_column("language")
    return (
        hunks.with_columns(
            pl.when(pl.col("language").is_in(largest.to_list()))
            .then("language")
            .otherwise(pl.lit(OTHER_LANGUAGES))
            .alias("language"),
            pl.col("commit_date").dt.truncate(step),
        )
        .group_by("commit_date", "language")
        .agg(hunks=pl.len())
        .sort("commit_date", "language")
    )


def _list_dated_commits(index: Frames) -> pl.DataFrame:
    """Return the reachable commits with date and author. Dates in the future are replaced by the present.

    Otherwise a commit that a wrong clock dates to the year 9999 would need more bars than matplotlib can draw.
    """
    date = pl.col("commit_date").clip(upper_bound=datetime.now(UTC))
    return index.commits.filter("reached").select("commit_sha", date, "author_email")


# Parts of an index, and what each is used for.
INDEX_PARTS: Final = {
    "vectors": "search by meaning",
    "diffs": "shown in answers",
    "embedded texts": "input of the encoder",
    "source of symbols": "symbols at HEAD",
    "words of hunks": "full-text search",
    "symbols": "names and the search for them",
    "everything else": "commits, keys, counts",
    FREE_SPACE: "unused space of the file",
}
# Columns that belong to another part than the rest of their table.
_PART_OF_COLUMN: Final = {
    "diff": "diffs",
    "semantic_text": "embedded texts",
    "source_text": "source of symbols",
}
_PART_OF_TABLE: Final = {
    FREE_SPACE: FREE_SPACE,
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


def measure_index_parts(index: Frames) -> pl.DataFrame:
    """Return the approximate `bytes` of each `part` of an index and its `use`, the largest first."""
    part = pl.col("column").replace_strict(
        _PART_OF_COLUMN, default=pl.col("table").replace_strict(_PART_OF_TABLE, default="everything else")
    )
    sizes = index.sizes.group_by(part=part).agg(pl.col("bytes").sum())
    return sizes.with_columns(use=pl.col("part").replace_strict(INDEX_PARTS)).sort("bytes", descending=True)


def load_run_phases(path: Path | str | None = None) -> pl.DataFrame:
    """Return the `seconds` of each `phase`, the longest first, summed over the index runs since the index was built.

    The times of parallel workers are added. All times are 0 for an index without recorded times.
    """
    times = load_times(find_index_location(path).times)
    rows = [{"phase": phase, "seconds": times.get(phase, 0.0)} for phase in PROFILE_FIELDS]
    return pl.DataFrame(rows).sort("seconds", descending=True)


# Subjects of fixes have one of these whole words, so "prefix" and "fixture" do not match.
FIX_SUBJECT: Final = (
    r"(?i)\b(fix(e[sd]|ing)?|bug|mend(s|ed)?|repair|regress\w*|crash\w*|broken?|revert\w*|correct(s|ed)?)\b"
)
# Commits that change more files do not count as co-changes: they are renames, reformatting or imports.
# Files that the index ignores are not counted.
MAX_FILES_PER_COMMIT: Final = 30
# Minimum number of common commits of a pair of files. With fewer, they may have changed together by coincidence.
MIN_COMMON_COMMITS: Final = 3
# Lower minimum for answers about one file or directory: they show the number of common commits, so a reader can judge
# it. A single common commit is no association.
MIN_COMMON_COMMITS_OF_FILE: Final = 2
# Quantile of the normal distribution for the two-sided 95 % interval of a share.
CONFIDENCE_QUANTILE: Final = 1.96
# Expression for the name of a symbol with its parents, such as `Parser.parse`.
QUALIFIED_NAME: Final = (
    pl.when(pl.col("parent") == "").then("name").otherwise(pl.col("parent") + "." + pl.col("name"))
)
# Aggregations of a group of commits to its newest. Of commits with equal dates, the last one counts: in the index,
# parents come before children.
_LAST_CHANGE: Final = {
    "last_commit": pl.col("commit_sha").sort_by("commit_date", maintain_order=True).last(),
    "last_date": pl.col("commit_date").max(),
}


def label_fix_commits(index: HistoryFrames) -> pl.DataFrame:
    """Return each reachable commit with its date and the boolean column `fix`, parents before children.

    `fix` is true if the subject has a word of FIX_SUBJECT.
    """
    subject = pl.col("message").str.split("\n").list.first()
    return index.commits.filter("reached").select(
        "commit_sha", "commit_date", fix=subject.str.contains(FIX_SUBJECT)
    )


@dataclass(frozen=True, slots=True, eq=False)
class RenamedHistory(HistoryFrames):
    """Frames whose `hunks` are the result of `follow_renames`, so that renames are followed only once."""


def follow_renames(index: HistoryFrames) -> pl.DataFrame:
    """Return the reachable hunks with the newest path of their file as `file_path`; `old_path` is null.

    A file thus stays one file when it is renamed. Changes of the old path on a branch without the rename also count as
    changes of this file.
    """
    if isinstance(index, RenamedHistory):
        return index.hunks
    dates = index.commits.filter("reached").select("commit_sha", "commit_date")
    hunks = index.hunks.join(dates, on="commit_sha").sort("commit_date", "hunk_id", descending=True)
    if hunks["old_path"].null_count() == hunks.height:
        return hunks.select(index.hunks.columns)
    newest_by_path: dict[str, str] = {}
    # Newest path by (old path, new path) of a rename. If another branch has the same rename, `newest_by_path` no longer
    # has its new path.
    newest_by_rename: dict[tuple[str | None, str], str] = {}
    newest_paths: list[str] = []
    # Positions of the changes of each path, until a rename of the path is found. On a branch without the rename, a path
    # can have changes that are newer than the rename.
    unassigned_changes: dict[str, list[int]] = {}
    columns = (hunks[name].to_list() for name in ("file_path", "old_path", "change_kind"))
    # Newest changes first.
    for position, (path, old_path, kind) in enumerate(zip(*columns, strict=True)):
        newest = newest_by_path.get(path) or newest_by_rename.get((old_path, path), path)
        newest_paths.append(newest)
        if path not in newest_by_path:
            unassigned_changes.setdefault(path, []).append(position)
        is_renamed = old_path is not None and old_path != path
        if kind == "added":
            # The history of the file starts here, so an older rename of this path concerns another file.
            unassigned_changes.pop(path, None)
        if is_renamed:
            # Changes of the old or new path that are newer than this rename belong to the renamed file.
            for newer_position in (*unassigned_changes.pop(path, ()), *unassigned_changes.pop(old_path, ())):
                newest_paths[newer_position] = newest
            newest_by_path.pop(path, None)  # older changes of this path belong to another file
            newest_by_path[old_path] = newest_by_rename[old_path, path] = newest
    return hunks.select(index.hunks.columns).with_columns(
        file_path=pl.Series(newest_paths, dtype=pl.String), old_path=pl.lit(None, pl.String)
    )


def find_file_hotspots(index: HistoryFrames) -> pl.DataFrame:
    """Return the files with their numbers of commits (`changes`), `fixes` and changed `lines`, most changes first.

    `fix_rate`: `fixes` as a share of `changes`. `last_commit`, `last_date`: sha and date of the newest commit.
    """
    return _find_hotspots(index, follow_renames(index), ["file_path"])


def find_symbol_hotspots(index: HistoryFrames) -> pl.DataFrame:
    """Return the symbols (qualified `name` and file) with the columns of `find_file_hotspots`, most changes first.

    A commit counts for a symbol only if it changes a line of the symbol (confidence `ExactSpan`).
    """
    changed_symbols = index.symbols.filter(pl.col("confidence") == "ExactSpan").with_columns(
        name=QUALIFIED_NAME
    )
    return _find_hotspots(
        index, changed_symbols.join(follow_renames(index), on="hunk_id"), ["name", "file_path"]
    )


def find_co_changes(index: HistoryFrames) -> pl.DataFrame:
    """Return pairs of files with the number of their common commits (`together`), the strongest pairs first.

    `share`: common commits as a share of the commits that change one or both files. The pairs are sorted by the lower
    bound of the share's Wilson interval, so that three of three commits count less than thirty of forty. Pairs
    with fewer than MIN_COMMON_COMMITS common commits, files that are not text, and commits of more than
    MAX_FILES_PER_COMMIT files are left out.
    """
    is_text = pl.col("file_path").map_elements(lambda path: classify_kind(path) != "data", pl.Boolean)
    is_small = pl.col("files") <= MAX_FILES_PER_COMMIT
    changed_files = list_changed_files(index).filter(is_text & is_small)
    counts = changed_files.group_by("file_path").agg(changes=pl.len())
    pairs = (
        changed_files.join(changed_files, on="commit_sha", suffix="_other")
        .filter(pl.col("file_path") < pl.col("file_path_other"))
        .group_by("file_path", "file_path_other")
        .agg(together=pl.len())
        .filter(pl.col("together") >= MIN_COMMON_COMMITS)
    )
    commits_of_either = pl.col("changes") + pl.col("changes_other") - pl.col("together")
    return (
        pairs.join(counts, on="file_path")
        .join(
            counts.rename({"file_path": "file_path_other", "changes": "changes_other"}), on="file_path_other"
        )
        .with_columns(share=pl.col("together") / commits_of_either)
        .sort(
            _compute_lower_bound(pl.col("share"), commits_of_either),
            "file_path",
            "file_path_other",
            descending=[True, False, False],
        )
    )


def find_files_changed_with(
    index: HistoryFrames, changed_files: pl.DataFrame, is_selected: pl.Expr
) -> pl.DataFrame:
    """Return the files that changed together with the selected file or files, strongest association first.

    `changed_files`: result of `list_changed_files`. `is_selected`: filter on `file_path`. Commits of more than
    MAX_FILES_PER_COMMIT files do not count. The columns of the result are:

    - `together`: number of commits that change the file and a selected file.
    - `changes`: number of commits that change the file.
    - `confidence`: `together` as a share of the commits that change a selected file.
    - `lift`: `confidence` divided by the file's share of all commits (`changes` / all); 1 without association.
    - `last_commit`, `last_date`: sha and date of the newest commit that `together` counts.

    The files are sorted by the log-likelihood ratio (Dunning 1993): how unlikely it is that so many commits are common
    by chance. For example, take a changelog that changes in half of all commits. A test file that changes in a fifth of
    the selected file's commits and in few others comes before it. Many common commits count more than few. Files with
    fewer than MIN_COMMON_COMMITS_OF_FILE common commits, or with a lift up to 1, are left out.
    """
    files = changed_files.filter(pl.col("files") <= MAX_FILES_PER_COMMIT)
    selected_commits = files.filter(is_selected).select("commit_sha").unique()
    total_count, selected_count = files["commit_sha"].n_unique(), selected_commits.height
    together, changes = pl.col("together").cast(pl.Float64), pl.col("changes").cast(pl.Float64)
    return (
        index.commits.select("commit_sha", "commit_date")
        .join(
            files.filter(~is_selected).join(selected_commits, on="commit_sha"),
            on="commit_sha",
            maintain_order="left",
        )
        .group_by("file_path")
        .agg(together=pl.len(), **_LAST_CHANGE)
        .join(files.group_by("file_path").agg(changes=pl.len()), on="file_path")
        .with_columns(
            confidence=together / selected_count, lift=together * total_count / (changes * selected_count)
        )
        .filter((pl.col("together") >= MIN_COMMON_COMMITS_OF_FILE) & (pl.col("lift") > 1))
        .sort(
            _compute_likelihood_ratio(together, selected_count, changes, total_count),
            "file_path",
            descending=[True, False],
        )
    )


def _compute_likelihood_ratio(together: pl.Expr, selected: int, changes: pl.Expr, total: int) -> pl.Expr:
    """Return the log-likelihood ratio for the association of the selected files with another file.

    A 2 x 2 table counts the commits that change a selected file or none (rows), and the other file or not (columns).
    `selected`: number of commits that change a selected file. `changes`: number of commits that change the other file.
    `together`: number of commits that change both. `total`: number of all commits.
    """
    # Observed and expected count of each cell of the table.
    cells = (
        (together, selected * changes / total),
        (selected - together, selected * (total - changes) / total),
        (changes - together, (total - selected) * changes / total),
        (total - selected - changes + together, (total - selected) * (total - changes) / total),
    )
    terms = [
        pl.when(count > 0).then(count * (count / expected).log()).otherwise(0.0) for count, expected in cells
    ]
    return 2 * pl.sum_horizontal(terms)


def count_large_commits(changed_files: pl.DataFrame, is_selected: pl.Expr) -> int:
    """Return how many commits that change a selected file are too large to count as co-changes.

    `changed_files`: result of `list_changed_files`.
    """
    is_large = pl.col("files") > MAX_FILES_PER_COMMIT
    return int(changed_files.filter(is_selected & is_large)["commit_sha"].n_unique())


def list_changed_files(index: HistoryFrames) -> pl.DataFrame:
    """Return each file of each reachable commit once. Column `files`: number of files that the commit changes."""
    files = follow_renames(index).select("commit_sha", "file_path").unique()
    return files.with_columns(files=pl.len().over("commit_sha"))


def _compute_lower_bound(share: pl.Expr, count: pl.Expr) -> pl.Expr:
    """Return the lower bound of the Wilson score interval of a share of `count` cases."""
    z = CONFIDENCE_QUANTILE
    centre = share + z * z / (2 * count)
    margin = z * (share * (1 - share) / count + z * z / (4 * count * count)).sqrt()
    return (centre - margin) / (1 + z * z / count)


def select_cross_directory_pairs(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs of `find_co_changes` whose files are in different top-level directories."""
    directories = [
        pl.col(name).str.extract("^([^/]*)/").fill_null("") for name in ("file_path", "file_path_other")
    ]
    return pairs.filter(directories[0] != directories[1]).select(
        "file_path", "file_path_other", "together", "share"
    )


def _find_hotspots(index: HistoryFrames, hunks: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Group the hunks by the columns `keys`. Return the columns of `find_file_hotspots` for each group."""
    lines_per_commit = hunks.group_by(*keys, "commit_sha").agg(
        lines=pl.col("added_lines").sum() + pl.col("removed_lines").sum()
    )
    return (
        label_fix_commits(index)
        .join(lines_per_commit, on="commit_sha", maintain_order="left")
        .group_by(keys)
        .agg(changes=pl.len(), fixes=pl.col("fix").sum(), lines=pl.col("lines").sum(), **_LAST_CHANGE)
        .with_columns(fix_rate=pl.col("fixes") / pl.col("changes"))
        .sort("changes", "fixes", *keys, descending=[True, True, *([False] * len(keys))])
    )


def find_index_location(path: Path | str | None = None) -> IndexLocation:
    """Return the index location of the repository at `path`.

    The default is the repository that LINEAGE_REPOSITORY names, or else the repository of the working directory.
    """
    return locate_index(config.load_settings().home, open_repository(_find_repository_path(path)))


def _find_repository_path(path: Path | str | None) -> Path:
    return Path(path).expanduser() if path is not None else config.get_notebook_repository()


@dataclass(frozen=True, slots=True, eq=False)
class NotebookIndex(Frames):
    """Frames of the index of the repository at `path`, and results of SQL on it."""

    path: Path

    def sql(self, statement: str) -> pl.DataFrame:
        """Run SQL as `lineage sql` does, on the last committed state; raise SqlError if it fails."""
        return retry_lost_message(lambda: self._run_sql(statement))

    def _run_sql(self, statement: str) -> pl.DataFrame:
        with open_sql(self.path, config.load_settings().home, wait=frames.WAIT_SECONDS) as index:
            return pl.DataFrame(pl.from_arrow(index.connection.execute(statement).to_arrow_table()))


def open_index(path: Path | str | None = None, *, texts: bool = False) -> NotebookIndex:
    """Read the index of a repository as polars frames, in one snapshot; raise NotIndexed if it has none.

    An index run or a daemon may be active meanwhile. The database is closed on return. `texts`: also read the diffs,
    embedded texts and the source of symbols, which take most of the memory.
    """
    repository_path = _find_repository_path(path)
    with open_sql(repository_path, config.load_settings().home, wait=frames.WAIT_SECONDS) as index:
        tables = frames.read_open_index(index, texts=texts)
    return NotebookIndex(
        **{field.name: getattr(tables, field.name) for field in fields(tables)}, path=repository_path
    )
