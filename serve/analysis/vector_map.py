"""Vectors as a map of the history: two axes of most variance, and regions named by what their files are called.

The lanes of a query and their fusion, side by side: why a hit is where it is.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline.encoders.registry import bundled_encoder
from pipeline.git.repository import open_repository
from serve import index_status
from serve.analysis.metrics import place
from serve.api_types import FindRequest
from serve.search import query, retrieval
from serve.search.cache import see
from serve.search.query_hints import Here
from serve.search.retrieval import fuse
from stores import database, hunk_details
from stores.frames import Frames

Points: TypeAlias = npt.NDArray[np.float32]

# More regions than this have no room for their names.
MOST_REGIONS: Final = 8
# A region of fewer is an accident.
FEWEST_IN_REGION: Final = 12
# Regions are looked for among this many axes: the rest is mostly noise, and distances in all of them are alike.
AXES: Final = 16
ROUNDS: Final = 50
# Words that a region is known by.
NAMED_BY: Final = 3
# A word that fewer files of a region have says little of it.
LEAST_SHARE: Final = 0.08


def mapped(index: Frames, *, seed: int = 0) -> pl.DataFrame:
    """Each hunk HEAD reaches with its place `x`, `y` and its `region`; `spread` is the share of variance they show."""
    reached = index.commits.filter("reached").select("commit_sha", "commit_date", "message")
    hunks = index.hunks.join(reached, on="commit_sha").join(index.vectors, on="text_digest")
    if hunks.height < 2:
        return hunks.select("hunk_id", "file_path").clear().with_columns(x=0.0, y=0.0, region=0, spread=0.0)
    rows = hunks.get_column("embedding").to_numpy().astype(np.float32)
    axes, shares = principal(rows)
    places = pl.DataFrame({"x": axes[:, 0], "y": axes[:, 1], "region": regions(axes, seed)})
    kept = hunks.select("hunk_id", "commit_sha", "file_path", "language", "commit_date", "message")
    return kept.hstack(places).with_columns(spread=pl.lit(float(shares[:2].sum())))


def principal(rows: Points) -> tuple[Points, Points]:
    """The rows along their axes of most variance, and the share of variance that each has."""
    centred = rows - rows.mean(axis=0)
    variances, directions = np.linalg.eigh(centred.T @ centred)
    order = np.argsort(variances)[::-1][:AXES]
    chosen = directions[:, order]
    # An axis may point either way: always the one in which its largest part is positive.
    signs = np.sign(chosen[np.abs(chosen).argmax(axis=0), np.arange(chosen.shape[1])])
    return centred @ (chosen * signs), variances[order] / max(variances.sum(), np.finfo(np.float32).tiny)


def regions(axes: Points, seed: int = 0) -> npt.NDArray[np.int64]:
    """The region of each row, by k-means: numbered from the largest on."""
    count = max(1, min(MOST_REGIONS, len(axes) // FEWEST_IN_REGION))
    rng = np.random.default_rng(seed)
    centres = _far_apart(axes, count, rng)
    for _ in range(ROUNDS):
        nearest = _nearest(axes, centres)
        moved = np.stack(
            [axes[nearest == n].mean(axis=0) if (nearest == n).any() else centres[n] for n in range(count)]
        )
        if np.allclose(moved, centres):
            break
        centres = moved
    nearest = _nearest(axes, centres)
    order = np.argsort(-np.bincount(nearest, minlength=count), kind="stable")
    return np.argsort(order)[nearest]


def names(places: pl.DataFrame) -> pl.DataFrame:
    """For each `region` its size in `hunks` and its `name`: what its files are called more often than others."""
    words = _path_words(places)
    sizes = places.group_by("region").agg(hunks=pl.len())
    inside = words.group_by("region", "word").agg(here=pl.col("hunk_id").n_unique()).join(sizes, on="region")
    everywhere = words.group_by("word").agg(all=pl.col("hunk_id").n_unique())
    share = pl.col("here") / pl.col("hunks")
    others = (pl.col("all") - pl.col("here") + 1) / (places.height - pl.col("hunks") + 1)
    telling = (
        inside.join(everywhere, on="word")
        .filter(share >= LEAST_SHARE)
        .with_columns(weight=share * (share / others).log())
        .sort("weight", "word", descending=[True, False])
        .group_by("region", maintain_order=True)
        .agg(name=pl.col("word").head(NAMED_BY).str.join(", "))
    )
    return (
        sizes.join(telling, on="region", how="left")
        .with_columns(pl.col("name").fill_null("a bit of all"))
        .sort("region")
    )


def hearts(places: pl.DataFrame) -> pl.DataFrame:
    """For each region the hunk that lies nearest to its middle on the map, with its commit's `subject`."""
    away = (pl.col("x") - pl.col("x").median().over("region")) ** 2 + (
        pl.col("y") - pl.col("y").median().over("region")
    ) ** 2
    subject = pl.col("message").str.split("\n").list.first()
    return (
        places.with_columns(away=away, subject=subject)
        .sort("region", "away", "hunk_id")
        .unique("region", keep="first", maintain_order=True)
    )


def _path_words(places: pl.DataFrame) -> pl.DataFrame:
    """The words of each hunk's path: whole ones, where the index has stems."""
    parted = pl.col("file_path").str.replace_all(r"([a-z])([A-Z])", "$1 $2").str.to_lowercase()
    return (
        places.select("hunk_id", "region", word=parted.str.extract_all(r"[^\W\d_]{3,}"))
        .explode("word")
        .drop_nulls()
    )


def _far_apart(axes: Points, count: int, rng: np.random.Generator) -> Points:
    """Rows to begin with, each chosen the likelier the farther it is from those before: k-means++."""
    chosen = [int(rng.integers(len(axes)))]
    while len(chosen) < count:
        distances = ((axes[:, None] - axes[chosen]) ** 2).sum(axis=2).min(axis=1)
        total = distances.sum()
        chosen.append(int(rng.choice(len(axes), p=distances / total) if total else rng.integers(len(axes))))
    return axes[chosen]


def _nearest(axes: Points, centres: Points) -> npt.NDArray[np.int64]:
    # One centre after another: rows by centres by axes at once would be a hundred megabytes of a large history.
    distances = np.stack([((axes - centre) ** 2).sum(axis=1) for centre in centres])
    return np.asarray(distances.argmin(axis=0), dtype=np.int64)


LANES = ("vectors", "words", "names")


def side_by_side(question: str, path: Path | str | None = None) -> pl.DataFrame:
    """Every candidate of a question: its rank in each lane, null where it is not in it, and after fusion.

    Lanes are asked as `find_pattern` asks them; nothing is reranked, and no two hunks of a commit are merged.
    """
    where = place(path)
    with database.reading(where) as connection:
        here = index_status.standing(open_repository(where.path), connection)
        said = hunk_details.languages(connection)
        asked = query.parse_query(
            FindRequest(question),
            datetime.now(UTC),
            Here(said.__contains__, partial(hunk_details.has_path, connection)),
        )
        encoder = bundled_encoder(here.encoding)
        rankings = retrieval.rank(connection, lambda: see(connection, here.reach), asked, encoder)
        fused = fuse(rankings.lanes, asked.profile.candidates)
        shown = {row.hunk_id: row for row in hunk_details.shown(connection, [one.hunk_id for one in fused])}
    ranks = [{hunk.hunk_id: rank for rank, hunk in enumerate(lane, 1)} for lane in rankings.lanes]
    rows = [
        {
            "fused": rank,
            **{name: lane.get(one.hunk_id) for name, lane in zip(LANES, ranks, strict=True)},
            "score": one.score,
            "file_path": shown[one.hunk_id].file_path,
            "subject": shown[one.hunk_id].commit_message.partition("\n")[0],
            "commit_sha": one.commit_sha,
        }
        for rank, one in enumerate(fused, 1)
    ]
    kinds = {"fused": pl.Int64, **dict.fromkeys(LANES, pl.Int64), "score": pl.Float64}
    texts = dict.fromkeys(("file_path", "subject", "commit_sha"), pl.String)
    return pl.DataFrame(rows, schema={**kinds, **texts})
