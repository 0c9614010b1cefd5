"""What the notebooks say of a history is what its commits say; every notebook runs on any of them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import polars as pl
import pytest
from nbclient import NotebookClient

from serve.analysis import charts, metrics, vector_map
from serve.analysis.metrics import open_index
from serve.cli import app
from stores.database import NotIndexed
from stores.frames import Frames
from tests.repos import Repo
from tests.serve import sample_index

ROOT = Path(app.__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """A lock and its test that change together, a readme, and a fix; one hour apart, the last a month later."""
    repo = Repo.create(tmp_path_factory.mktemp("history") / "repo")
    for number in range(6):
        repo.write("src/lock.py", f"def take():\n    wait({number})\n\n\ndef free():\n    pass\n")
        repo.write("tests/test_lock.py", f"def test_take():\n    assert take() == {number}\n")
        repo.commit(f"Fix the wait of {number}" if number % 3 == 2 else f"Wait for {number}")
    repo.commit_file("README.md", "# Locks\n", "Say what it is")
    repo.commit_file("README.md", "# Locks\nfor prefixes\n", "Describe the prefix and the fixture")
    repo.write("src/lock.py", "def take():\n    wait(9)\n")
    repo.commit("Drop free", date=repo.clock + timedelta(days=30))
    return repo


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, history: Repo) -> Path:
    home = tmp_path_factory.mktemp("home")
    sample_index.index(history, home)
    return home


@pytest.fixture(autouse=True)
def _environment(home: Path, history: Repo, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LINEAGE_HOME", str(home))
    monkeypatch.setenv("LINEAGE_REPOSITORY", str(history.path))
    monkeypatch.setenv("LINEAGE_NO_DAEMON", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield


@pytest.fixture
def index() -> Frames:
    return open_index()


def test_open_index(history: Repo, tmp_path: Path) -> None:
    """Of the repository that is named, by any path inside; else of the setting; with an error where none is."""
    assert open_index().commits.height == open_index(history.path / "src").commits.height == 9
    other = Repo.create(tmp_path / "other")
    other.commit_file("a.py", "a = 1\n")
    with pytest.raises(NotIndexed, match="lineage index"):
        open_index(str(other.path))


def test_activity(index: Frames) -> None:
    """Commits and lines fall into steps of the calendar, empty ones included."""
    assert metrics.step(index) == "1d"
    rows = metrics.over_time(index, "1d")
    assert rows.height == 31
    assert rows.row(0) == (datetime(2020, 1, 1, tzinfo=UTC), 8, 1, 20, 10)
    assert rows.row(30)[1:] == (1, 1, 1, 5)
    assert set(rows.slice(1, 29)["commits"]) == {0}
    assert metrics.languages(index, "1d").rows()[:2] == [
        (datetime(2020, 1, 1, tzinfo=UTC), "markdown", 2),
        (datetime(2020, 1, 1, tzinfo=UTC), "python", 12),
    ]


@pytest.mark.parametrize(
    ("subject", "is_fix"),
    [
        ("Fix the lock", True),
        ("Add a prefix", False),
        ("Repaired fixtures", False),
        ("fixes #3", True),
        ("A bug", True),
    ],
)
def test_what_counts_as_a_fix(index: Frames, subject: str, is_fix: bool) -> None:
    """A word of the subject decides, not a part of one."""
    commits = index.commits.head(1).with_columns(message=pl.lit(f"{subject}\n\nfix"))
    changed = Frames(commits, *(getattr(index, name) for name in Frames.__slots__[1:]))
    assert metrics.fixes(changed)["fix"].to_list() == [is_fix]


def test_hotspots(index: Frames) -> None:
    """Files and symbols by commits, with the share that are fixes; pairs by how often both change."""
    assert metrics.files(index).select("file_path", "changes", "fixes").rows() == [
        ("src/lock.py", 7, 2),
        ("tests/test_lock.py", 6, 2),
        ("README.md", 2, 0),
    ]
    assert metrics.symbols(index).select("name", "changes").rows()[:2] == [("take", 7), ("test_take", 6)]
    assert metrics.co_changes(index).select("file_path", "file_path_other", "together", "share").rows() == [
        ("src/lock.py", "tests/test_lock.py", 6, 6 / 7)
    ]
    assert metrics.across_folders(metrics.co_changes(index)).height == 1


def test_lanes() -> None:
    """Each candidate stands with its rank in every lane, in the order of fusion."""
    rows = vector_map.side_by_side("how long does take wait")
    assert rows["fused"].to_list() == list(range(1, rows.height + 1))
    assert rows["score"].to_list() == sorted(rows["score"], reverse=True)
    first = rows.row(0, named=True)
    assert first["score"] == pytest.approx(
        sum(1 / (60 + first[name]) for name in vector_map.LANES if first[name])
    )
    assert vector_map.side_by_side("xyzzy").columns == rows.columns


def test_principal_axes() -> None:
    """Along the first axis lies what varies most, and shares add up."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((500, 5)).astype(np.float32) * np.array([9, 4, 1, 1, 1], np.float32)
    axes, shares = vector_map.principal(rows)
    assert abs(np.corrcoef(axes[:, 0], rows[:, 0])[0, 1]) > 0.99
    assert shares[0] > shares[1] > 0.1 and shares.sum() == pytest.approx(1, abs=1e-3)


def test_regions() -> None:
    """Three heaps are found as three, whatever the seed, the largest first."""
    rng = np.random.default_rng(2)
    sizes = (40, 24, 32)
    heaps = [rng.standard_normal((n, 4)) * 0.1 + 10 * k for k, n in enumerate(sizes)]
    for seed in range(3):
        found = vector_map.regions(np.concatenate(heaps).astype(np.float32), seed)
        assert np.bincount(found).max() <= 40
        assert all(len(set(part)) >= 1 for part in np.split(found, np.cumsum(sizes)[:-1]))
        assert not set(found[:40]) & set(found[40:64])
    assert set(vector_map.regions(np.zeros((30, 2), np.float32))) == {0}


def test_map_of_a_history(index: Frames) -> None:
    """Every hunk has a place, and a region is called what its files are."""
    places = vector_map.mapped(index)
    assert places.height == index.hunks.height == 15
    assert 0 < places["spread"][0] <= 1
    assert vector_map.names(places)["hunks"].sum() == 15
    assert vector_map.hearts(places).height == places["region"].n_unique()


def test_parts(index: Frames) -> None:
    """Every byte of the sizes is in one part, and every part says what it is for."""
    sizes = metrics.parts(index)
    assert sizes["bytes"].sum() == index.sizes["bytes"].sum()
    assert set(sizes["part"]) <= set(metrics.PARTS)
    assert charts.parts(sizes)._repr_png_()  # of an index whose rows all lie in its log, too


def test_phases_of_a_real_run(history: Repo, home: Path) -> None:
    """A run over a clone is measured; neither the repository nor the home is touched."""
    before = sorted(home.rglob("*"))
    times = metrics.phases(commits=3)
    assert set(times["phase"]) == {"walk", "diff", "parse", "embed", "storage", "fts", "symbols"}
    assert times["seconds"].sum() > 0
    assert sorted(home.rglob("*")) == before
    assert history.git("status", "--porcelain") == ""


@pytest.mark.parametrize("commits", [0, 1])
def test_charts_of_next_to_nothing(index: Frames, commits: int) -> None:
    """A history of one commit, or of none, has charts, too."""
    few = index.commits.head(commits)
    shas = few["commit_sha"].to_list()
    tiny = Frames(
        few,
        index.hunks.filter(pl.col("commit_sha").is_in(shas)),
        *(getattr(index, n) for n in Frames.__slots__[2:]),
    )
    for draw in (
        charts.history,
        charts.hot_files,
        charts.hot_symbols,
        charts.changed_together,
        charts.map_of,
    ):
        assert draw(tiny)._repr_png_().startswith(b"\x89PNG")


def test_shortened() -> None:
    """Both ends of a long name are kept."""
    assert charts.shortened("short", 9) == "short"
    assert charts.shortened("serve/analysis/charts.py", 11) == "serve…ts.py"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the kernel's client
def test_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    """From top to bottom on a small repository, and a chart comes of it."""
    read: Any = nbformat.read(notebook, 4)
    NotebookClient(read, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert any("image/png" in output.get("data", {}) for output in outputs(read))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_readable_as_it_is(notebook: Path) -> None:
    """What is committed was run, shows its charts as small pictures, and names no place of whoever ran it."""
    read: Any = nbformat.read(notebook, 4)
    pictures = [
        output["data"]["image/png"] for output in outputs(read) if "image/png" in output.get("data", {})
    ]
    assert pictures and all(len(base64.b64decode(picture)) < 200_000 for picture in pictures)
    assert all(cell.execution_count for cell in read.cells if cell.cell_type == "code")
    text = notebook.read_text(encoding="utf-8")
    assert not [word for word in ("file://", "/home/", "/Users/", "Traceback") if word in text]


def outputs(notebook: Any) -> Iterator[Any]:
    for cell in notebook.cells:
        yield from cell.get("outputs", [])
