"""Metrics and charts of a small repository, and runs of every notebook on it."""

from __future__ import annotations

import base64
import os
import tracemalloc
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from nbclient import NotebookClient

from pipeline.profile import Profile, record_times
from serve.analysis import charts, metrics, search_charts
from serve.analysis.metrics import open_index
from serve.cli import app
from stores.database import NotIndexed
from stores.frames import Frames
from stores.sql import SqlError
from tests.repos import Repo
from tests.serve import sample_index

ROOT = Path(app.__file__).parents[2]
FRAME_NAMES = [field.name for field in fields(Frames)]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """Repository with nine commits, an hour apart, the last a month later.

    Six change a lock and its test together, two of them as fixes; two change the readme.
    """
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
    sample_index.build_index(history, home)
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
    """`open_index` takes any path in a repository, defaults to LINEAGE_REPOSITORY, and fails without an index."""
    assert open_index().commits.height == open_index(history.path / "src").commits.height == 9
    other = Repo.create(tmp_path / "other")
    other.commit_file("a.py", "a = 1\n")
    with pytest.raises(NotIndexed, match="lineage index"):
        open_index(str(other.path))


def test_sql_gives_frames(history: Repo) -> None:
    """`sql` returns the rows of a statement as a frame, with the views and macros of `lineage sql`."""
    index = open_index(history.path)
    result = index.sql("SELECT count(DISTINCT commit_sha) AS commits FROM changes")
    assert result.to_dicts() == [{"commits": index.commits.height}]
    with pytest.raises(SqlError, match="syntax error"):
        index.sql("SELEC 1")


def test_count_activity(index: Frames) -> None:
    """Commits and lines are grouped by calendar step, including empty steps."""
    assert metrics.choose_step(index) == "1d"
    rows = metrics.count_activity(index, "1d")
    assert rows.height == 31
    assert rows.row(0) == (datetime(2020, 1, 1, tzinfo=UTC), 8, 1, 20, 10)
    assert rows.row(30)[1:] == (1, 1, 1, 5)
    assert set(rows.slice(1, 29)["commits"]) == {0}
    assert metrics.count_language_activity(index, "1d").rows()[:2] == [
        (datetime(2020, 1, 1, tzinfo=UTC), "markdown", 2),
        (datetime(2020, 1, 1, tzinfo=UTC), "python", 12),
    ]


def test_dates_in_the_future(index: Frames) -> None:
    """A commit of the year 9999 counts as one of today, in frames and in the chart."""
    latest = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    date = pl.when(pl.int_range(pl.len()) == 8).then(pl.lit(latest)).otherwise("commit_date")
    commits = index.commits.sort("commit_date").with_columns(commit_date=date.dt.cast_time_unit("us"))
    future_index = replace(index, commits=commits)
    assert charts.plot_activity(future_index)._repr_png_()
    rows = metrics.count_activity(future_index, "1y")
    assert rows["commits"][-1] == 1 and rows["commits"].sum() == 9
    assert rows["commit_date"][-1].year == datetime.now(UTC).year
    assert metrics.count_language_activity(future_index, "1y")["hunks"].sum() == index.hunks.height


def test_largest_languages_are_those_of_reached_commits(
    index: Frames, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits that HEAD does not reach have no influence on which languages are shown by name."""
    monkeypatch.setattr(metrics, "MAX_LANGUAGES", 1)
    markdown = index.hunks.filter(language="markdown").get_column("commit_sha").to_list()
    commits = index.commits.with_columns(reached=pl.col("commit_sha").is_in(markdown))
    hunks = index.hunks.filter(~pl.col("commit_sha").is_in(markdown) | (pl.col("language") == "markdown"))
    reached = Frames(commits, hunks, *(getattr(index, name) for name in FRAME_NAMES[2:]))
    assert metrics.count_language_activity(reached, "1d")["language"].unique().to_list() == ["markdown"]


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
def test_fix_subjects(index: Frames, subject: str, is_fix: bool) -> None:
    """A commit is a fix if its subject, not its body, has a word of a fix as a whole word."""
    commits = index.commits.head(1).with_columns(message=pl.lit(f"{subject}\n\nfix"))
    index_with_subject = Frames(commits, *(getattr(index, name) for name in FRAME_NAMES[1:]))
    assert metrics.label_fix_commits(index_with_subject)["fix"].to_list() == [is_fix]


def test_hotspots(index: Frames) -> None:
    """Files and symbols are ordered by commits; a pair of files has its common commits and their share."""
    assert metrics.find_file_hotspots(index).select("file_path", "changes", "fixes").rows() == [
        ("src/lock.py", 7, 2),
        ("tests/test_lock.py", 6, 2),
        ("README.md", 2, 0),
    ]
    assert metrics.find_symbol_hotspots(index).select("name", "changes").rows()[:2] == [
        ("take", 7),
        ("test_take", 6),
    ]
    assert metrics.find_co_changes(index).select(
        "file_path", "file_path_other", "together", "share"
    ).rows() == [("src/lock.py", "tests/test_lock.py", 6, 6 / 7)]
    assert metrics.select_cross_directory_pairs(metrics.find_co_changes(index)).height == 1


def test_compare_lanes() -> None:
    """Hits are in fused order, and the score is the sum of 1 / (60 + rank) over the lanes."""
    rows = search_charts.compare_lanes("how long does take wait")
    assert rows["fused"].to_list() == list(range(1, rows.height + 1))
    assert rows["score"].to_list() == sorted(rows["score"], reverse=True)
    first = rows.row(0, named=True)
    assert first["score"] == pytest.approx(
        sum(1 / (60 + first[name]) for name in search_charts.LANES if first[name])
    )
    assert search_charts.compare_lanes("xyzzy").columns == rows.columns


def test_commits_without_files(tmp_path: Path, home: Path) -> None:
    """Empty commits and clean merges count as commits, but not as changed files; a lane shows their subject."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "a = 1\n", "First")
    repo.branch("side")
    repo.commit_file("b.py", "b = 1\n", "Second")
    repo.switch("main")
    repo.merge("side", message="Merge the second")
    repo.commit("Decide against plugins")
    sample_index.build_index(repo, home)
    index = open_index(repo.path)
    assert metrics.count_activity(index, "1d")["commits"].to_list() == [4]
    assert metrics.count_language_activity(index, "1d")["language"].to_list() == ["python"]
    assert metrics.find_file_hotspots(index)["file_path"].to_list() == ["a.py", "b.py"]
    assert search_charts.compute_hunk_map(index).height == index.words["hunk_id"].n_unique() == 2
    rows = search_charts.compare_lanes("decide against plugins", repo.path)
    assert rows.row(0, named=True)["file_path"] == ""
    [axes] = search_charts.plot_lane_ranks("decide", rows).axes
    assert "1  Decide against plugins" in {text.get_text() for text in axes.texts}


def test_project_on_principal_axes() -> None:
    """The first axis is the direction of the largest variance, and the shares add up to one."""
    rng = np.random.default_rng(1)
    points = rng.standard_normal((500, 5)).astype(np.float32) * np.array([9, 4, 1, 1, 1], np.float32)
    axes, shares = search_charts.project_on_principal_axes(points)
    assert abs(np.corrcoef(axes[:, 0], points[:, 0])[0, 1]) > 0.99
    assert shares[0] > shares[1] > 0.1 and shares.sum() == pytest.approx(1, abs=1e-3)


def test_cluster_regions() -> None:
    """Separate clusters get separate regions for any seed, and equal points get one region."""
    rng = np.random.default_rng(2)
    sizes = (40, 24, 32)
    clusters = [rng.standard_normal((n, 4)) * 0.1 + 10 * k for k, n in enumerate(sizes)]
    for seed in range(3):
        regions = search_charts.cluster_regions(np.concatenate(clusters).astype(np.float32), seed)
        assert np.bincount(regions).max() <= 40
        regions_by_cluster = [set(part) for part in np.split(regions, np.cumsum(sizes)[:-1])]
        assert len(set.union(*regions_by_cluster)) == sum(map(len, regions_by_cluster))
    assert set(search_charts.cluster_regions(np.zeros((30, 2), np.float32))) == {0}


def test_memory_of_clusters() -> None:
    """The choice of initial centres takes a few times the memory of the points, however many regions there are."""
    points = np.random.default_rng(3).standard_normal((20_000, 16)).astype(np.float32)
    tracemalloc.start()
    search_charts.cluster_regions(points)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * points.nbytes


def test_map_of_one_hunk(index: Frames) -> None:
    """With fewer than two hunks the map is empty, with the same columns, and all functions accept it."""
    points = search_charts.compute_hunk_map(replace(index, hunks=index.hunks.head(1)))
    assert points.is_empty() and points.schema == search_charts.compute_hunk_map(index).schema
    assert search_charts.name_regions(points).is_empty()
    assert search_charts.find_central_hunks(points).is_empty()


def test_compute_hunk_map(index: Frames) -> None:
    """Every hunk has a region, and every region has a name and a central hunk."""
    points = search_charts.compute_hunk_map(index)
    assert points.height == index.hunks.height == 15
    assert 0 < points["explained_share"][0] <= 1
    assert search_charts.name_regions(points)["hunks"].sum() == 15
    assert search_charts.find_central_hunks(points).height == points["region"].n_unique()


def test_measure_index_parts(index: Frames) -> None:
    """Every byte belongs to one part, and every part has a use."""
    sizes = metrics.measure_index_parts(index)
    assert sizes["bytes"].sum() == index.sizes["bytes"].sum()
    assert set(sizes["part"]) <= set(metrics.INDEX_PARTS)
    assert charts.plot_index_parts(sizes)._repr_png_()  # also while all rows are in the write-ahead log


def test_load_run_phases() -> None:
    """The times of all runs since the index was built are added up, the longest first; zeros without a usable file."""
    file = metrics.find_index_location().times
    for content in ("", "[1]", "null", '{"embed": "x"}', '{"embed": [1]}'):
        file.write_text(content)
        assert metrics.load_run_phases()["seconds"].sum() == 0
    file.unlink()
    os.mkfifo(file)
    assert metrics.load_run_phases()["seconds"].sum() == 0
    file.unlink()
    assert metrics.load_run_phases()["seconds"].sum() == 0
    assert charts.plot_run_phases(metrics.load_run_phases())._repr_png_()
    record_times(file, Profile({"embed": 2.0, "diff": 1.5}))
    record_times(file, Profile({"embed": 1.0, "parse": 0.5}))
    times = metrics.load_run_phases()
    assert times.rows()[:3] == [("embed", 3.0), ("diff", 1.5), ("parse", 0.5)]
    assert set(times["phase"]) == {"walk", "diff", "parse", "text", "embed", "storage", "fts", "symbols"}


def replace_hunks(index: Frames, rows: list[tuple[int, str, str | None]]) -> Frames:
    """Return the index with these hunks: number of the commit, path and old path."""
    shas = index.commits.sort("commit_date")["commit_sha"].to_list()
    sample = index.hunks.head(1)
    hunks = [
        sample.with_columns(
            hunk_id=pl.lit(hunk).cast(sample.schema["hunk_id"]),
            commit_sha=pl.lit(shas[commit]),
            file_path=pl.lit(path),
            old_path=pl.lit(old_path, pl.String),
        )
        for hunk, (commit, path, old_path) in enumerate(rows)
    ]
    return Frames(index.commits, pl.concat(hunks), *(getattr(index, name) for name in FRAME_NAMES[2:]))


def test_renamed_files_are_counted_once(index: Frames) -> None:
    """Changes before a rename count for the newest path; another file that had the path later does not."""
    renamed = replace_hunks(
        index,
        [
            (0, "a.py", None),
            (1, "b.py", "a.py"),
            (2, "a.py", None),
            (3, "src/b.py", "b.py"),
            (4, "src/b.py", None),
        ],
    )
    assert metrics.follow_renames(renamed).sort("hunk_id")["file_path"].to_list() == [
        "src/b.py",
        "src/b.py",
        "a.py",
        "src/b.py",
        "src/b.py",
    ]
    assert metrics.find_file_hotspots(renamed).select("file_path", "changes").rows() == [
        ("src/b.py", 4),
        ("a.py", 1),
    ]


def test_co_changes_of_much_evidence_come_first(index: Frames) -> None:
    """Six of seven commits count more than three of three, and images are left out."""
    rows: list[tuple[int, str, str | None]] = [
        (commit, path, None) for commit in range(6) for path in ("a.py", "b.py", "x.png", "y.png")
    ]
    rows += [
        (6, "a.py", None),
        *((commit, path, None) for commit in range(6, 9) for path in ("c.py", "d.py")),
    ]
    pairs = metrics.find_co_changes(replace_hunks(index, rows))
    assert pairs.select("file_path", "file_path_other", "together").rows()[:2] == [
        ("a.py", "b.py", 6),
        ("c.py", "d.py", 3),
    ]
    assert not pairs.filter(pl.col("file_path").str.ends_with(".png")).height


def test_find_short_paths() -> None:
    """Files of the same name are told apart by their directories."""
    assert charts.find_short_paths(["src/app.py", "tests/app.py", "src/cli.py", "app.py"]) == {
        "src/app.py": "src/app.py",
        "tests/app.py": "tests/app.py",
        "src/cli.py": "cli.py",
        "app.py": "app.py",
    }


def test_long_titles_are_wrapped() -> None:
    """No line of a title is wider than the chart."""
    figure = charts.create_figure(4, " ".join(["serve/analysis/charts.py"] * 6), "note")
    renderer = FigureCanvasAgg(figure).get_renderer()
    assert all(text.get_window_extent(renderer).x1 <= figure.bbox.x1 for text in figure.texts)


@pytest.mark.parametrize("commits", [0, 1])
def test_charts_of_empty_history(index: Frames, commits: int) -> None:
    """Charts of a history with one commit, or with none, are drawn."""
    first_commits = index.commits.head(commits)
    shas = first_commits["commit_sha"].to_list()
    small_index = Frames(
        first_commits,
        index.hunks.filter(pl.col("commit_sha").is_in(shas)),
        *(getattr(index, n) for n in FRAME_NAMES[2:]),
    )
    for plot in (
        charts.plot_activity,
        charts.plot_file_hotspots,
        charts.plot_symbol_hotspots,
        charts.plot_co_changes,
        search_charts.plot_vector_map,
    ):
        assert plot(small_index)._repr_png_().startswith(b"\x89PNG")


def test_shorten() -> None:
    """A long text loses its middle, and a short text is unchanged."""
    assert charts.shorten("short", 9) == "short"
    assert charts.shorten("serve/analysis/charts.py", 11) == "serve…ts.py"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the kernel's client
def test_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    """Every notebook runs on a small repository and draws a chart."""
    parsed_notebook: Any = nbformat.read(notebook, 4)
    NotebookClient(parsed_notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert any("image/png" in output.get("data", {}) for output in iter_outputs(parsed_notebook))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_notebook_outputs(notebook: Path) -> None:
    """Committed notebooks have outputs with small charts, and no local paths."""
    parsed_notebook: Any = nbformat.read(notebook, 4)
    images = [
        output["data"]["image/png"]
        for output in iter_outputs(parsed_notebook)
        if "image/png" in output.get("data", {})
    ]
    assert images and all(len(base64.b64decode(picture)) < 200_000 for picture in images)
    assert all(cell.execution_count for cell in parsed_notebook.cells if cell.cell_type == "code")
    text = notebook.read_text(encoding="utf-8")
    assert not [word for word in ("file://", "/home/", "/Users/", "Traceback") if word in text]


def iter_outputs(notebook: Any) -> Iterator[Any]:
    for cell in notebook.cells:
        yield from cell.get("outputs", [])
