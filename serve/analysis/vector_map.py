"""Map of the vectors of a history with named regions, and the lanes of a query side by side."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline.encoders.registry import create_bundled_encoder
from pipeline.git.repository import open_repository
from serve import index_status
from serve.analysis.metrics import find_index_location
from serve.api_types import FindRequest
from serve.search import query, retrieval
from serve.search.cache import load_snapshot
from serve.search.query_hints import RepositoryContext
from serve.search.retrieval import reciprocal_rank_fusion
from stores import database, hunk_details
from stores.frames import Frames

Points: TypeAlias = npt.NDArray[np.float32]

# The legend has room for this many regions.
MAX_REGIONS: Final = 8
# Hunks per region on average, at least.
MIN_REGION_SIZE: Final = 12
# Principal axes used for clustering; the rest is mostly noise.
AXIS_COUNT: Final = 16
MAX_ITERATIONS: Final = 50
# Words in the name of a region.
WORDS_PER_NAME: Final = 3
# Share of a region's hunks that must have a word for it to name the region.
MIN_WORD_SHARE: Final = 0.08


def map_hunks(index: Frames, *, seed: int = 0) -> pl.DataFrame:
    """Return every reachable hunk with coordinates `x`, `y` and `region`; `spread` is the explained variance."""
    reached = index.commits.filter("reached").select("commit_sha", "commit_date", "message")
    hunks = index.hunks.join(reached, on="commit_sha").join(index.vectors, on="text_digest")
    if hunks.height < 2:
        return hunks.select("hunk_id", "file_path").clear().with_columns(x=0.0, y=0.0, region=0, spread=0.0)
    rows = hunks.get_column("embedding").to_numpy().astype(np.float32)
    axes, shares = principal_axes(rows)
    points = pl.DataFrame({"x": axes[:, 0], "y": axes[:, 1], "region": cluster_regions(axes, seed)})
    columns = hunks.select("hunk_id", "commit_sha", "file_path", "language", "commit_date", "message")
    return columns.hstack(points).with_columns(spread=pl.lit(float(shares[:2].sum())))


def principal_axes(rows: Points) -> tuple[Points, Points]:
    """Project rows on their principal axes; return coordinates and the share of variance of each axis."""
    centred = rows - rows.mean(axis=0)
    variances, directions = np.linalg.eigh(centred.T @ centred)
    order = np.argsort(variances)[::-1][:AXIS_COUNT]
    components = directions[:, order]
    # The sign of an axis is arbitrary: make its largest component positive.
    signs = np.sign(components[np.abs(components).argmax(axis=0), np.arange(components.shape[1])])
    return centred @ (components * signs), variances[order] / max(variances.sum(), np.finfo(np.float32).tiny)


def cluster_regions(axes: Points, seed: int = 0) -> npt.NDArray[np.int64]:
    """Cluster the rows by k-means; return the region of each row, numbered by size."""
    count = max(1, min(MAX_REGIONS, len(axes) // MIN_REGION_SIZE))
    rng = np.random.default_rng(seed)
    centres = _initial_centres(axes, count, rng)
    for _ in range(MAX_ITERATIONS):
        nearest = _nearest_centre(axes, centres)
        new_centres = np.stack(
            [axes[nearest == n].mean(axis=0) if (nearest == n).any() else centres[n] for n in range(count)]
        )
        if np.allclose(new_centres, centres):
            break
        centres = new_centres
    nearest = _nearest_centre(axes, centres)
    order = np.argsort(-np.bincount(nearest, minlength=count), kind="stable")
    return np.argsort(order)[nearest]


def name_regions(points: pl.DataFrame) -> pl.DataFrame:
    """Return size (`hunks`) and `name` of each region: the path words most specific to it."""
    words = _path_words(points)
    sizes = points.group_by("region").agg(hunks=pl.len())
    inside = words.group_by("region", "word").agg(here=pl.col("hunk_id").n_unique()).join(sizes, on="region")
    everywhere = words.group_by("word").agg(all=pl.col("hunk_id").n_unique())
    share = pl.col("here") / pl.col("hunks")
    others = (pl.col("all") - pl.col("here") + 1) / (points.height - pl.col("hunks") + 1)
    region_names = (
        inside.join(everywhere, on="word")
        .filter(share >= MIN_WORD_SHARE)
        .with_columns(weight=share * (share / others).log())
        .sort("weight", "word", descending=[True, False])
        .group_by("region", maintain_order=True)
        .agg(name=pl.col("word").head(WORDS_PER_NAME).str.join(", "))
    )
    return (
        sizes.join(region_names, on="region", how="left")
        .with_columns(pl.col("name").fill_null("mixed"))
        .sort("region")
    )


def cluster_centers(points: pl.DataFrame) -> pl.DataFrame:
    """Return the hunk nearest to the median of each region, with its commit's `subject`."""
    distance = (pl.col("x") - pl.col("x").median().over("region")) ** 2 + (
        pl.col("y") - pl.col("y").median().over("region")
    ) ** 2
    subject = pl.col("message").str.split("\n").list.first()
    return (
        points.with_columns(away=distance, subject=subject)
        .sort("region", "away", "hunk_id")
        .unique("region", keep="first", maintain_order=True)
    )


def _path_words(points: pl.DataFrame) -> pl.DataFrame:
    """Return the words of each hunk's path, unstemmed."""
    split_path = pl.col("file_path").str.replace_all(r"([a-z])([A-Z])", "$1 $2").str.to_lowercase()
    return (
        points.select("hunk_id", "region", word=split_path.str.extract_all(r"[^\W\d_]{3,}"))
        .explode("word")
        .drop_nulls()
    )


def _initial_centres(axes: Points, count: int, rng: np.random.Generator) -> Points:
    """Choose initial centres by k-means++."""
    rows = [int(rng.integers(len(axes)))]
    while len(rows) < count:
        distances = ((axes[:, None] - axes[rows]) ** 2).sum(axis=2).min(axis=1)
        total = distances.sum()
        rows.append(int(rng.choice(len(axes), p=distances / total) if total else rng.integers(len(axes))))
    return axes[rows]


def _nearest_centre(axes: Points, centres: Points) -> npt.NDArray[np.int64]:
    # One centre at a time: all at once takes 100 MB for a large history.
    distances = np.stack([((axes - centre) ** 2).sum(axis=1) for centre in centres])
    return np.asarray(distances.argmin(axis=0), dtype=np.int64)


LANES = ("vectors", "words", "names")


def compare_lanes(query_text: str, path: Path | str | None = None) -> pl.DataFrame:
    """Return every candidate of a query with its rank in each lane (null if absent) and after fusion.

    Runs the lanes like `find_pattern`, without reranking and without merging hunks of a commit.
    """
    location = find_index_location(path)
    with database.open_for_reading(location) as connection:
        status = index_status.load_index_status(open_repository(location.path), connection)
        languages = hunk_details.list_languages(connection)
        parsed_query = query.parse_query(
            FindRequest(query_text),
            datetime.now(UTC),
            RepositoryContext(languages.__contains__, partial(hunk_details.has_path, connection)),
        )
        encoder = create_bundled_encoder(status.encoder_name)
        rankings = retrieval.run_retrievers(
            connection, lambda: load_snapshot(connection, status.reachability), parsed_query, encoder
        )
        fused = reciprocal_rank_fusion(rankings.lanes, parsed_query.profile.candidates)
        details = {
            row.hunk_id: row
            for row in hunk_details.load_hunk_details(connection, [one.hunk_id for one in fused])
        }
    ranks = [{hunk.hunk_id: rank for rank, hunk in enumerate(lane, 1)} for lane in rankings.lanes]
    rows = [
        {
            "fused": rank,
            **{name: lane.get(one.hunk_id) for name, lane in zip(LANES, ranks, strict=True)},
            "score": one.score,
            "file_path": details[one.hunk_id].file_path,
            "subject": details[one.hunk_id].commit_message.partition("\n")[0],
            "commit_sha": one.commit_sha,
        }
        for rank, one in enumerate(fused, 1)
    ]
    kinds = {"fused": pl.Int64, **dict.fromkeys(LANES, pl.Int64), "score": pl.Float64}
    texts = dict.fromkeys(("file_path", "subject", "commit_sha"), pl.String)
    return pl.DataFrame(rows, schema={**kinds, **texts})
