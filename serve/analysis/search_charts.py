"""Charts of the search in notebooks: the lanes of a query, and a map of all hunks with named clusters (regions).

A lane is one retriever's ranking of the hunks. A hunk is the diff of one file in one commit.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
from matplotlib.axes import Axes

from pipeline.encoders.base import create_bundled_encoder
from pipeline.git.repository import open_repository
from serve import index_status
from serve.analysis.charts import PALETTE, TEXT_COLOR, Chart, create_figure, shorten, style_axes
from serve.analysis.metrics import find_index_location
from serve.find_types import FindRequest
from serve.search import query, retrieval
from serve.search.cache import load_snapshot_with_vectors
from serve.search.query_hints import RepositoryContext
from serve.search.retrieval import fuse_rankings
from stores import hunk_details, index_copy
from stores.frames import Frames
from stores.snapshot import LANE_DEPTH

FloatArray: TypeAlias = npt.NDArray[np.float32]

# Names of the lanes in the order of `RetrieverResults.lanes`: by vectors, by hunk text and by symbol names.
LANES: Final = ("vectors", "words", "names")
# Maximum number of hits of the fused ranking in the chart.
MAX_LANE_HITS: Final = 10
# Largest rank on the axis of the chart. Hits with a larger rank are drawn at this rank.
MAX_PLOTTED_RANK: Final = 30

# Maximum number of regions. The legend has no room for more.
MAX_REGIONS: Final = 8
# Number of hunks for each region of a small history. A larger history has MAX_REGIONS regions.
HUNKS_PER_REGION: Final = 12
# Number of principal axes that clustering uses. The others are mostly noise.
AXIS_COUNT: Final = 16
# Maximum number of iterations of k-means. It ends earlier if the centres no longer move.
MAX_ITERATIONS: Final = 50
# Maximum number of words in the name of a region. A longer name does not fit the legend.
WORDS_PER_NAME: Final = 3
# A word can be in the name of a region if at least this share of the region's hunks have it in their path.
MIN_WORD_SHARE: Final = 0.08


def compare_lanes(query_text: str, path: Path | str | None = None) -> pl.DataFrame:
    """Return the fused hits of a query with their rank in each lane. The rank is null if the lane lacks the hit.

    `lineage query` computes the same lanes, but here hits are not reranked, and hits of one commit are not merged.
    Raises NotIndexed if the repository has no index.
    """
    location = find_index_location(path)
    with index_copy.open_index_or_copy(location) as index:
        connection = index.connection
        status = index_status.load_index_status(open_repository(location.path), connection)
        languages = hunk_details.list_languages(connection)
        parsed_query = query.parse_query(
            FindRequest(query_text),
            datetime.now(UTC),
            RepositoryContext(languages.__contains__, partial(hunk_details.has_path, connection)),
        )
        encoder = create_bundled_encoder(status.encoder_name)
        results = retrieval.run_retrievers(
            connection,
            lambda: load_snapshot_with_vectors(connection, status.reachability),
            parsed_query,
            encoder,
        )
        fused_hits = fuse_rankings(results.lanes, parsed_query.retrieval_profile.candidate_count)
        hunk_ids = [hit.hunk_id for hit in fused_hits]
        details = {row.hunk_id: row for row in hunk_details.load_hunk_details(connection, hunk_ids)}
    ranks_by_lane = [{hit.hunk_id: rank for rank, hit in enumerate(lane, 1)} for lane in results.lanes]
    rows = [
        {
            "fused": rank,
            **{name: ranks.get(hit.hunk_id) for name, ranks in zip(LANES, ranks_by_lane, strict=True)},
            "score": hit.score,
            "file_path": details[hit.hunk_id].file_path,
            "subject": details[hit.hunk_id].commit_message.partition("\n")[0],
            "commit_sha": hit.commit_sha,
        }
        for rank, hit in enumerate(fused_hits, 1)
    ]
    number_types = {"fused": pl.Int64, **dict.fromkeys(LANES, pl.Int64), "score": pl.Float64}
    text_types = dict.fromkeys(("file_path", "subject", "commit_sha"), pl.String)
    return pl.DataFrame(rows, schema={**number_types, **text_types})


def plot_lane_ranks(query_text: str, rows: pl.DataFrame) -> Chart:
    """Plot for each of the first fused hits its ranks in the lanes; `rows` is the result of `compare_lanes`."""
    top = rows.head(MAX_LANE_HITS)
    figure = create_figure(
        5.6,
        _format_lane_title(top),
        f"Ranks by lane for “{shorten(query_text, 60)}”. "
        f"A lane has no dot for a hit that is not among its first {LANE_DEPTH} hits.",
    )
    axes = figure.subplots()
    columns = [*LANES, "fused"]
    for number, row in enumerate(top.iter_rows(named=True)):
        colour = PALETTE[number % len(PALETTE)]
        points = [(x, min(row[name], MAX_PLOTTED_RANK)) for x, name in enumerate(columns) if row[name]]
        axes.plot(
            *zip(*points, strict=True),
            color=colour,
            linewidth=2,
            linestyle="-" if number < len(PALETTE) else ":",
            marker="o",
            markersize=7,
            alpha=0.9,
        )
        label = f"{row['fused']}  {shorten(row['file_path'] or row['subject'], 38)}"
        axes.annotate(
            label,
            (len(columns) - 1, row["fused"]),
            (10, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=TEXT_COLOR,
        )
    _style_rank_axes(axes, columns)
    return figure


def _format_lane_title(top: pl.DataFrame) -> str:
    if not top.height:
        return "No lane found a hit"
    common_hits = top.drop_nulls(LANES).height
    return f"All three lanes found {common_hits} of the first {top.height} hits"


def _style_rank_axes(axes: Axes, columns: list[str]) -> None:
    style_axes(axes, grid="x")
    axes.set_ylim(MAX_PLOTTED_RANK + 0.8, 0.2)
    axes.set_xlim(-0.25, len(columns) + 1.1)
    axes.set_xticks(range(len(columns)), columns, color=TEXT_COLOR, fontsize=10, fontweight="bold")
    axes.xaxis.tick_top()
    ticks = (1, 5, 10, 20, MAX_PLOTTED_RANK)
    axes.set_yticks(ticks, [*map(str, ticks[:-1]), f"≥ {MAX_PLOTTED_RANK}"])
    axes.spines["bottom"].set_visible(False)


def compute_hunk_map(index: Frames, *, seed: int = 0) -> pl.DataFrame:
    """Return every reachable hunk that has a vector, with its coordinates `x` and `y` and the number of its `region`.

    `explained_share` is the share of the variance that the two coordinates explain, with the same value in every row.
    With fewer than two hunks the frame is empty.
    """
    commits = index.commits.filter("reached").select("commit_sha", "commit_date", "message")
    hunks = index.hunks.join(commits, on="commit_sha").join(index.vectors, on="text_digest")
    columns = hunks.select("hunk_id", "commit_sha", "file_path", "language", "commit_date", "message")
    if hunks.height < 2:
        zero = pl.lit(0, pl.Float32)
        return columns.clear().with_columns(
            x=zero, y=zero, region=pl.lit(0, pl.Int64), explained_share=pl.lit(0.0)
        )
    # A vector is stored as 8-bit integers (codes), with one factor (scale) for all of them.
    codes, scales = (hunks.get_column(name).to_numpy() for name in ("codes", "scale"))
    vectors = codes * scales[:, None]
    coordinates, shares = project_on_principal_axes(vectors)
    points = pl.DataFrame(
        {"x": coordinates[:, 0], "y": coordinates[:, 1], "region": cluster_regions(coordinates, seed)}
    )
    return columns.hstack(points).with_columns(explained_share=pl.lit(float(shares[:2].sum())))


def project_on_principal_axes(vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Project the vectors on their first AXIS_COUNT principal axes.

    Return the coordinates, a row for each vector, and the share of the variance that each axis explains.
    """
    centred_vectors = vectors - vectors.mean(axis=0)
    variances, directions = np.linalg.eigh(centred_vectors.T @ centred_vectors)
    order = np.argsort(variances)[::-1][:AXIS_COUNT]
    components = directions[:, order]
    # The sign of an axis is arbitrary: make its largest component positive.
    signs = np.sign(components[np.abs(components).argmax(axis=0), np.arange(components.shape[1])])
    # All vectors may be equal: do not divide by zero.
    total_variance = max(variances.sum(), np.finfo(np.float32).tiny)
    return centred_vectors @ (components * signs), variances[order] / total_variance


def cluster_regions(points: FloatArray, seed: int = 0) -> npt.NDArray[np.int64]:
    """Cluster the points by k-means. Return the region of each point; region 0 is the largest."""
    count = max(1, min(MAX_REGIONS, len(points) // HUNKS_PER_REGION))
    rng = np.random.default_rng(seed)
    centres = _choose_initial_centres(points, count, rng)
    for _ in range(MAX_ITERATIONS):
        region_of_point = _find_nearest_centres(points, centres)
        new_centres = centres.copy()
        for region in np.unique(region_of_point):
            new_centres[region] = points[region_of_point == region].mean(axis=0)
        if np.allclose(new_centres, centres):
            break
        centres = new_centres
    region_of_point = _find_nearest_centres(points, centres)
    # Number the regions by size.
    order = np.argsort(-np.bincount(region_of_point, minlength=count), kind="stable")
    return np.argsort(order)[region_of_point]


def name_regions(points: pl.DataFrame) -> pl.DataFrame:
    """Return the number of `hunks` and the `name` of each region.

    A name has up to WORDS_PER_NAME words that are frequent in the region's paths: those most typical of the region.
    Without a frequent word the name is `mixed`.
    """
    words = _extract_path_words(points)
    sizes = points.group_by("region").agg(hunks=pl.len())
    region_words = (
        words.group_by("region", "word").agg(in_region=pl.col("hunk_id").n_unique()).join(sizes, on="region")
    )
    all_words = words.group_by("word").agg(in_all=pl.col("hunk_id").n_unique())
    share = pl.col("in_region") / pl.col("hunks")
    share_elsewhere = (pl.col("in_all") - pl.col("in_region") + 1) / (points.height - pl.col("hunks") + 1)
    region_names = (
        region_words.join(all_words, on="word")
        .filter(share >= MIN_WORD_SHARE)
        .with_columns(weight=share * (share / share_elsewhere).log())
        .sort("weight", "word", descending=[True, False])
        .group_by("region", maintain_order=True)
        .agg(name=pl.col("word").head(WORDS_PER_NAME).str.join(", "))
    )
    return (
        sizes.join(region_names, on="region", how="left")
        .with_columns(pl.col("name").fill_null("mixed"))
        .sort("region")
    )


def find_central_hunks(points: pl.DataFrame) -> pl.DataFrame:
    """Return for each region the hunk nearest to its median position, with the `subject` of the hunk's commit."""
    distance = (pl.col("x") - pl.col("x").median().over("region")) ** 2 + (
        pl.col("y") - pl.col("y").median().over("region")
    ) ** 2
    subject = pl.col("message").str.split("\n").list.first()
    return (
        points.with_columns(distance=distance, subject=subject)
        .sort("region", "distance", "hunk_id")
        .unique("region", keep="first", maintain_order=True)
    )


def _extract_path_words(points: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each `word` of at least three letters in each hunk's path, in lower case."""
    split_path = pl.col("file_path").str.replace_all(r"([a-z])([A-Z])", "$1 $2").str.to_lowercase()
    return (
        points.select("hunk_id", "region", word=split_path.str.extract_all(r"[^\W\d_]{3,}"))
        .explode("word")
        .drop_nulls()
    )


def _choose_initial_centres(points: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Choose initial centres by k-means++."""
    rows = [int(rng.integers(len(points)))]
    # Squared distance of each point to the nearest chosen centre.
    distances = np.full(len(points), np.inf, points.dtype)
    while len(rows) < count:
        distances = np.minimum(distances, ((points - points[rows[-1]]) ** 2).sum(axis=1))
        total = distances.sum()
        rows.append(int(rng.choice(len(points), p=distances / total) if total else rng.integers(len(points))))
    return points[rows]


def _find_nearest_centres(points: FloatArray, centres: FloatArray) -> npt.NDArray[np.int64]:
    """Return for each point the index of its nearest centre."""
    # One centre at a time, because all centres at once take 100 MB for a large history.
    distances = np.stack([((points - centre) ** 2).sum(axis=1) for centre in centres])
    return np.asarray(distances.argmin(axis=0), dtype=np.int64)


def plot_vector_map(index: Frames) -> Chart:
    """Plot every hunk of `compute_hunk_map` as a dot. Colours and legend show the named regions."""
    points = compute_hunk_map(index)
    explained_share = points["explained_share"][0] if points.height else 0.0
    regions = name_regions(points)
    title = (
        f"{points.height:,} changes in {regions.height} regions. The largest is “{regions['name'][0]}”"
        if regions.height
        else "No changes yet"
    )
    note = f"Each dot is one changed file of one commit. The axes show {explained_share:.0%} of the variance."
    figure = create_figure(7.4, title, note)
    axes = figure.subplots()
    axes.set_axis_off()
    for row in regions.iter_rows(named=True):
        dots = points.filter(pl.col("region") == row["region"])
        colour = PALETTE[row["region"] % len(PALETTE)]
        label = f"{row['name']}  ({row['hunks']:,})"
        axes.scatter(dots["x"], dots["y"], s=14, color=colour, alpha=0.65, linewidths=0, label=label)
        centre = (dots["x"].median(), dots["y"].median())
        axes.annotate(
            str(row["region"] + 1),
            centre,
            ha="center",
            va="center",
            fontsize=10,
            fontweight="bold",
            color=TEXT_COLOR,
            bbox={"boxstyle": "circle,pad=0.25", "facecolor": "white", "edgecolor": colour, "linewidth": 1.6},
        )
    if regions.height:
        axes.legend(
            *_number_legend_entries(axes),
            frameon=False,
            fontsize=9,
            ncols=2,
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            handletextpad=0.2,
        )
    return figure


def _number_legend_entries(axes: Axes) -> tuple[list[Any], list[str]]:
    """Return the legend's dots and names, the names numbered like the regions on the map."""
    dots, names = axes.get_legend_handles_labels()
    return dots, [f"{number}  {name}" for number, name in enumerate(names, 1)]
