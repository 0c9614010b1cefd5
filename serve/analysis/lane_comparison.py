"""Comparison of the lanes of a query, and its chart. A lane is one retriever's ranking of the hunks.

A hunk is the diff of one file in one commit.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import polars as pl
from matplotlib.axes import Axes

from pipeline.encoders.base import create_bundled_encoder
from pipeline.git.repository import open_repository
from serve import index_status
from serve.analysis.charts import INK, PALETTE, Chart, create_figure, shorten, style_axes
from serve.analysis.metrics import find_index_location
from serve.find_types import FindRequest
from serve.search import query, retrieval
from serve.search.cache import load_snapshot_with_vectors
from serve.search.query_hints import RepositoryContext
from serve.search.retrieval import fuse_rankings
from stores import hunk_details, index_copy
from stores.snapshot import LANE_DEPTH

# Lanes in the order of `run_retrievers`: by meaning, by full text and by symbol name.
LANES: Final = ("vectors", "words", "names")
# Hits of the fused ranking that the chart shows.
MAX_LANE_HITS: Final = 10
# Rank at the lower edge of the chart. Hits with a larger rank number are drawn there too.
LOWEST_RANK: Final = 30


def compare_lanes(query_text: str, path: Path | str | None = None) -> pl.DataFrame:
    """Return the fused hits of a query with their rank in each lane; null if the lane does not have the hit.

    The lanes are those of `lineage query`, but hits are not reranked, and hits of one commit are not merged. Raises
    NotIndexed if the repository has no index.
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
        rankings = retrieval.run_retrievers(
            connection,
            lambda: load_snapshot_with_vectors(connection, status.reachability),
            parsed_query,
            encoder,
        )
        fused = fuse_rankings(rankings.lanes, parsed_query.retrieval_profile.candidate_count)
        details = {
            row.hunk_id: row
            for row in hunk_details.load_hunk_details(connection, [hit.hunk_id for hit in fused])
        }
    ranks_by_lane = [{hunk.hunk_id: rank for rank, hunk in enumerate(lane, 1)} for lane in rankings.lanes]
    rows = [
        {
            "fused": rank,
            **{name: lane.get(hit.hunk_id) for name, lane in zip(LANES, ranks_by_lane, strict=True)},
            "score": hit.score,
            "file_path": details[hit.hunk_id].file_path,
            "subject": details[hit.hunk_id].commit_message.partition("\n")[0],
            "commit_sha": hit.commit_sha,
        }
        for rank, hit in enumerate(fused, 1)
    ]
    number_types = {"fused": pl.Int64, **dict.fromkeys(LANES, pl.Int64), "score": pl.Float64}
    text_types = dict.fromkeys(("file_path", "subject", "commit_sha"), pl.String)
    return pl.DataFrame(rows, schema={**number_types, **text_types})


def plot_lane_ranks(query_text: str, rows: pl.DataFrame) -> Chart:
    """Plot the ranks in each lane of the first fused hits; `rows` is the result of `compare_lanes`."""
    top = rows.head(MAX_LANE_HITS)
    figure = create_figure(
        5.6,
        _format_lane_title(top),
        f"Ranks by lane for “{shorten(query_text, 60)}”. "
        f"A hit without a dot is not among the lane's first {LANE_DEPTH}.",
    )
    axes = figure.subplots()
    columns = [*LANES, "fused"]
    for number, row in enumerate(top.iter_rows(named=True)):
        colour = PALETTE[number % len(PALETTE)]
        points = [(place, min(row[name], LOWEST_RANK)) for place, name in enumerate(columns) if row[name]]
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
            color=INK,
        )
    _style_rank_axes(axes, columns)
    return figure


def _format_lane_title(top: pl.DataFrame) -> str:
    counts = top.select(pl.sum_horizontal(pl.col(name).is_not_null() for name in LANES).alias("lanes"))
    common_hits = int((counts["lanes"] == len(LANES)).sum())
    return (
        f"All three lanes have {common_hits} of the first {top.height} hits"
        if top.height
        else "No lane has a hit"
    )


def _style_rank_axes(axes: Axes, columns: list[str]) -> None:
    style_axes(axes, grid="x")
    axes.set_ylim(LOWEST_RANK + 0.8, 0.2)
    axes.set_xlim(-0.25, len(columns) + 1.1)
    axes.set_xticks(range(len(columns)), columns, color=INK, fontsize=10, fontweight="bold")
    axes.xaxis.tick_top()
    ticks = (1, 5, 10, 20, LOWEST_RANK)
    axes.set_yticks(ticks, [*map(str, ticks[:-1]), f"≥ {LOWEST_RANK}"])
    axes.spines["bottom"].set_visible(False)
