"""Where an index's bytes and a run's seconds go."""

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
from serve import settings
from stores.errors import LineageError
from stores.frames import FREE, Frames

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
_LINEAGE: Final = (sys.executable, "-P", "-m", "serve.cli")


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
    root = open_repository(Path(path) if path is not None else settings.repository()).root
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "clone")
        environment = settings.for_daemon(Path(folder, "home"))
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
