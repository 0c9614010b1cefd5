"""The lanes of a query and their fusion, side by side: why a hit is where it is."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import polars as pl

from pipeline.encoders import bundled_encoder
from pipeline.git.repository import open_repository
from serve import standing
from serve.find import lanes, query
from serve.find.fuse import fuse
from serve.find.hints import Here
from serve.find.seen import see
from serve.insight.opening import place
from serve.questions import FindRequest
from stores import database, showing

LANES = ("vectors", "words", "names")


def side_by_side(question: str, path: Path | str | None = None) -> pl.DataFrame:
    """Every candidate of a question: its rank in each lane, null where it is not in it, and after fusion.

    Lanes are asked as `find_pattern` asks them; nothing is reranked, and no two hunks of a commit are merged.
    """
    where = place(path)
    with database.reading(where) as connection:
        here = standing.standing(open_repository(where.path), connection)
        said = showing.languages(connection)
        asked = query.read(
            FindRequest(question),
            datetime.now(UTC),
            Here(said.__contains__, partial(showing.has_path, connection)),
        )
        encoder = bundled_encoder(here.encoding)
        rankings = lanes.rank(connection, lambda: see(connection, here.reach), asked, encoder)
        fused = fuse(rankings.lanes, asked.profile.candidates)
        shown = {row.hunk_id: row for row in showing.shown(connection, [one.hunk_id for one in fused])}
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
