"""Data frames about a history: activity, hotspots, co-changes, index size and run time.

`open_index` reads the index of a repository. A commit counts as a fix by words in its subject; rates of fixes compare
files of one history, not histories with each other.
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
from serve.repositories import locate_index
from stores import frames
from stores.errors import LineageError
from stores.frames import FREE_SPACE, Frames
from stores.index_location import IndexLocation

# Calendar steps, finest first: name and approximate hours.
CALENDAR_STEPS: Final = {
    "1h": ("hour", 1),
    "6h": ("six hours", 6),
    "1d": ("day", 24),
    "1w": ("week", 168),
    "1mo": ("month", 730),
    "3mo": ("quarter", 2_190),
    "1y": ("year", 8_766),
}
# Bars that can be told apart in a chart of this width.
MAX_BARS: Final = 72
# Languages with a colour of their own; the others are grouped.
MAX_LANGUAGES: Final = 5
OTHER: Final = "other"


def choose_step(index: Frames) -> str:
    """Return the finest calendar step with at most MAX_BARS bars."""
    span = index.commits.filter("reached").select(
        (pl.col("commit_date").max() - pl.col("commit_date").min()).dt.total_hours()
    )
    hours = span.item() or 0
    return next((name for name, (_, length) in CALENDAR_STEPS.items() if hours / length <= MAX_BARS), "1y")


def activity_over_time(index: Frames, every: str) -> pl.DataFrame:
    """Return commits, authors, added and removed lines per step, including steps without commits."""
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


def language_activity(index: Frames, every: str) -> pl.DataFrame:
    """Return changed files (`hunks`) per step and language; small languages are grouped as `other`."""
    hunks = index.hunks.with_columns(pl.col("language").fill_null("unknown"))
    largest = hunks.get_column("language").value_counts(sort=True).head(MAX_LANGUAGES).get_column("language")
    return (
        hunks.join(index.commits.filter("reached").select("commit_sha", "commit_date"), on="commit_sha")
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


# Parts of an index with their use, and the columns and tables that belong to each.
INDEX_PARTS: Final = {
    "vectors": "searched by the vector lane",
    "diffs": "shown in answers",
    "embedded texts": "input of the encoder",
    "source of symbols": "symbols at HEAD",
    "words of hunks": "postings of the full-text lane",
    "symbols": "names and their postings",
    "everything else": "commits, keys, counts",
    FREE_SPACE: "free space in blocks",
}
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


# Enough for stable shares, few enough to wait for.
PROFILED_COMMITS: Final = 25
_LINEAGE: Final = (sys.executable, "-P", "-m", "serve.cli.app")


class RunFailed(LineageError):
    """The profiled index run failed."""


def index_parts(index: Frames) -> pl.DataFrame:
    """Return the approximate `bytes` of each `part` of an index, and its use."""
    part = pl.col("column").replace_strict(
        _PART_OF_COLUMN, default=pl.col("table").replace_strict(_PART_OF_TABLE, default="everything else")
    )
    sizes = index.sizes.group_by(part=part).agg(pl.col("bytes").sum())
    return sizes.with_columns(use=pl.col("part").replace_strict(INDEX_PARTS)).sort("bytes", descending=True)


def run_phases(path: Path | str | None = None, *, commits: int = PROFILED_COMMITS) -> pl.DataFrame:
    """Return the `seconds` of each `phase` of an index run over the newest commits, summed over all workers.

    Runs `lineage index --profile` on a temporary clone, with a temporary home.
    """
    root = open_repository(Path(path) if path is not None else config.notebook_repository()).root
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "clone")
        environment = config.daemon_environment(Path(folder, "home"))
        _run_command(
            ["git", "clone", "--quiet", f"--depth={commits}", root.as_uri(), str(clone)], environment
        )
        line = _run_command(
            [*_LINEAGE, "index", str(clone), "--profile", "--no-progress"], environment
        ).splitlines()[-1]
    times = json.loads(line)
    rows = [{"phase": phase, "seconds": times[field] / 1000} for phase, field in PROFILE_FIELDS.items()]
    return pl.DataFrame(rows).sort("seconds", descending=True)


def _run_command(command: list[str], environment: dict[str, str]) -> str:
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RunFailed(f"`{command[0]}` failed.", hint=result.stderr.strip())
    return result.stdout


# Words in the subjects of fixes; "prefix" and "fixture" do not match.
FIX_SUBJECT: Final = (
    r"(?i)\b(fix(e[sd]|ing)?|bug|mend(s|ed)?|repair|regress\w*|crash\w*|broken?|revert\w*|correct(s|ed)?)\b"
)
# Larger commits (renames, reformatting, imports) do not relate their files.
MAX_FILES_PER_COMMIT: Final = 30
# Fewer common commits are coincidence.
MIN_COMMON_COMMITS: Final = 3


def label_fixes(index: Frames) -> pl.DataFrame:
    """Return each reachable commit with the boolean column `fix`."""
    subject = pl.col("message").str.split("\n").list.first()
    return index.commits.filter("reached").select("commit_sha", fix=subject.str.contains(FIX_SUBJECT))


def file_hotspots(index: Frames) -> pl.DataFrame:
    """Return files by number of commits (`changes`), with `fixes` and `lines`."""
    return _hotspots(index, index.hunks, ["file_path"])


def symbol_hotspots(index: Frames) -> pl.DataFrame:
    """Return symbols by number of commits (`changes`), with qualified `name` and file."""
    qualified_name = (
        pl.when(pl.col("parent") == "").then("name").otherwise(pl.col("parent") + "." + pl.col("name"))
    )
    touched = index.symbols.filter(pl.col("confidence") == "ExactSpan").with_columns(name=qualified_name)
    return _hotspots(index, touched.join(index.hunks, on="hunk_id"), ["name", "file_path"])


def co_changes(index: Frames) -> pl.DataFrame:
    """Return pairs of files with common commits (`together`), and their `share` of the commits of either file."""
    changed = index.hunks.join(label_fixes(index), on="commit_sha").select("commit_sha", "file_path").unique()
    small = changed.filter(pl.len().over("commit_sha") <= MAX_FILES_PER_COMMIT)
    counts = small.group_by("file_path").agg(changes=pl.len())
    pairs = (
        small.join(small, on="commit_sha", suffix="_other")
        .filter(pl.col("file_path") < pl.col("file_path_other"))
        .group_by("file_path", "file_path_other")
        .agg(together=pl.len())
        .filter(pl.col("together") >= MIN_COMMON_COMMITS)
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


def across_directories(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs whose files are in different top-level directories."""
    top = [pl.col(name).str.extract("^([^/]*)/").fill_null("") for name in ("file_path", "file_path_other")]
    return pairs.filter(top[0] != top[1]).select("file_path", "file_path_other", "together", "share")


def _hotspots(index: Frames, touched: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    per_commit = touched.group_by(*keys, "commit_sha").agg(
        lines=pl.col("added_lines").sum() + pl.col("removed_lines").sum()
    )
    return (
        per_commit.join(label_fixes(index), on="commit_sha")
        .group_by(keys)
        .agg(changes=pl.len(), fixes=pl.col("fix").sum(), lines=pl.col("lines").sum())
        .with_columns(fix_rate=pl.col("fixes") / pl.col("changes"))
        .sort("changes", "fixes", *keys, descending=[True, True, *([False] * len(keys))])
    )


def find_index_location(path: Path | str | None = None) -> IndexLocation:
    """Return the index location of a repository; default LINEAGE_REPOSITORY, then the working directory."""
    repository_path = Path(path).expanduser() if path is not None else config.notebook_repository()
    return locate_index(config.load_settings().home, open_repository(repository_path))


def open_index(path: Path | str | None = None, *, texts: bool = False) -> Frames:
    """Read the index of a repository as polars frames, in one snapshot; raise NotIndexed where there is none.

    Works beside an index run or a daemon, and keeps nothing open. `texts` adds diffs, embedded texts and
    the source of symbols, which take most of the memory.
    """
    return frames.read_frames(find_index_location(path), texts=texts)
