"""What happens every day: nothing new, one new commit, a question. Whole processes, start to exit.

python -m tests.bench.everyday CLONE...

The new commit is measured on each clone's index and on a made history with 5,000 files at HEAD.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.bench import indexes
from tests.bench.histories import History, add_commit, cut, wide
from tests.bench.programs import Finished, lineage, run
from tests.bench.report import Asked, Row, main, median, seconds

NO_OP_SECONDS: Final = 0.5
COMMIT_SECONDS: Final = 3.0
QUERY_SECONDS: Final = 3.0
QUESTION: Final = "close the socket when the connection was lost"

# What a run with nothing to do has no business with.
HEAVY: Final = ("onnxruntime", "tokenizers", "tree_sitter", "polars", "pyarrow", "numpy")


def measure(clone: Path, folder: Path, asked: Asked) -> Sequence[Row]:
    """Rows of one history; its index is built first, untimed."""
    history = cut(clone, folder / "clone", asked.commits)
    home = folder / "home"
    lineage(home, "index", history.path, "--no-progress")
    return [
        *no_op(history, home, asked.runs),
        query(history, home, asked.runs),
        one_commit(history, home, asked.runs),
    ]


def measure_wide(folder: Path, asked: Asked) -> Sequence[Row]:
    """The row of the made history."""
    history, home = wide(folder / "wide"), folder / "home"
    lineage(home, "index", history.path, "--no-progress")
    return [one_commit(history, home, asked.runs)]


def no_op(history: History, home: Path, runs: int) -> list[Row]:
    """`index --incremental` when HEAD is indexed: time, files it wrote, heavy modules it loaded."""
    before = indexes.files(history.path, home)
    done = [lineage(home, "index", history.path, "--incremental", memory=False) for _ in range(runs)]
    assert all(run.out.startswith("index up-to-date at ") for run in done), done[0].out
    written = [name for name, stat in indexes.files(history.path, home).items() if before.get(name) != stat]
    took = [run.seconds for run in done]
    loaded = _loaded(history, home)
    return [
        Row(
            history.name,
            "index --incremental, nothing to do, seconds",
            median(took),
            NO_OP_SECONDS,
            seconds(took),
        ),
        Row(history.name, "the same: files written", len(written), 0, ", ".join(written)),
        Row(history.name, "the same: models, parsers and tables loaded", len(loaded), 0, ", ".join(loaded)),
    ]


def one_commit(history: History, home: Path, runs: int) -> Row:
    """A commit to one file, then `index --incremental`."""
    done = []
    for number in range(runs):
        add_commit(history, number)
        command = ("index", history.path, "--incremental", "--profile", "--no-progress")
        done.append(lineage(home, *command, memory=False))
    took = [run.seconds for run in done]
    detail = f"{seconds(took)}; HEAD symbols {median([_head_ms(run) for run in done]):.0f} ms of it"
    return Row(history.name, "one new commit, seconds", median(took), COMMIT_SECONDS, detail)


def query(history: History, home: Path, runs: int) -> Row:
    """`lineage query` without a daemon, the model's loading included."""
    asking = ("query", history.path, "--query", QUESTION)
    done = [lineage(home, *asking, memory=False) for _ in range(runs)]
    took = [run.seconds for run in done]
    hits = len(json.loads(done[0].out)["hits"])
    detail = f"{seconds(took)}; {hits} hits, peak memory {lineage(home, *asking).peak_bytes:,} bytes"
    return Row(history.name, "query, seconds", median(took), QUERY_SECONDS, detail)


def _loaded(history: History, home: Path) -> list[str]:
    command = ("-X", "importtime", "-m", "serve.cli.app", "index", str(history.path), "--incremental")
    imported = run((sys.executable, *command), home=home).err
    modules = {line.rpartition("|")[2].strip().partition(".")[0] for line in imported.splitlines()}
    return [name for name in HEAVY if name in modules]


def _head_ms(run: Finished) -> float:
    return float(json.loads(run.out.splitlines()[-1])["head_symbols_ms"])


if __name__ == "__main__":
    main(measure, __doc__ or "", measure_wide)
