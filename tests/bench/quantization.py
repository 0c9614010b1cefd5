"""Benchmark of the codes of an index: overlap of their ranking with that of the vectors as floats.

python -m tests.bench.quantization CLONE... [--home HOME] [--encoder NAME]

Each clone is indexed, or its index in HOME is read. The texts of its hunks are embedded again, and ranked by
the whitened floats as the vector lane ranks the codes. Queries are subjects of the repository.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

import numpy as np

from pipeline.encoders.base import SearchEncoder, create_bundled_encoder
from pipeline.git.repository import open_repository
from pipeline.options import EncoderName
from serve.repositories import locate_index
from stores import database, snapshot, vector_search
from stores.filters import QueryFilter
from stores.history import ReachabilityDelta
from stores.index_location import IndexLocation
from stores.snapshot import Floats, Snapshot, to_digest_array
from stores.vectors import Vectors, Whitening, fit_whitening, normalize
from tests.bench.programs import run_lineage
from tests.bench.report import Row, create_temporary_directory, print_rows

DEPTH: Final = 50
QUERIES: Final = 200
# Upper bound of the share of the fifty best hunks by floats that the codes miss.
MAX_MISSED_SHARE: Final = 0.01

_TEXTS: Final = "SELECT hunk_id, semantic_text FROM hunks"
_SUBJECTS: Final = """
SELECT DISTINCT split_part(message, chr(10), 1) AS subject FROM commits WHERE len(subject) >= 20 ORDER BY hash(subject)
LIMIT {count}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clones", nargs="+", type=Path, metavar="CLONE")
    parser.add_argument("--home", type=Path, help="LINEAGE_HOME with indexes of the clones")
    parser.add_argument("--encoder", type=EncoderName, choices=list(EncoderName), default=EncoderName.MINILM)
    arguments = parser.parse_args()
    with create_temporary_directory() as folder:
        rows = []
        for clone in arguments.clones:
            if arguments.home is None:
                run_lineage(
                    folder, "index", clone.absolute(), "--no-progress", "--encoder", arguments.encoder
                )
            location = locate_index(arguments.home or folder, open_repository(clone))
            rows.append(measure(clone.name, location, create_bundled_encoder(arguments.encoder)))
        print_rows(rows)


def measure(name: str, location: IndexLocation, encoder: SearchEncoder) -> Row:
    """Return the mean share of the best hunks by floats that the codes miss."""
    with database.open_for_reading(location) as connection:
        loaded = snapshot.load_snapshot(connection, ReachabilityDelta())
        texts = vector_search.load_text_vectors(connection, loaded)
        text_by_hunk: dict[int, str] = dict(connection.execute(_TEXTS).fetchall())
        subjects = [subject for (subject,) in connection.execute(_SUBJECTS.format(count=QUERIES)).fetchall()]
        everything = snapshot.apply_filter(connection, loaded, QueryFilter())
    embeddings = _embed_hunks(loaded, text_by_hunk, encoder)
    # Fitted to the same texts as that of the codes, in the order of their digests.
    _, first_hunks = np.unique(to_digest_array(loaded.hunks.text_digests), return_index=True)
    whitening = fit_whitening(embeddings[first_hunks])
    overlaps = []
    for query in encoder.encode_queries(subjects):
        hits = vector_search.search(loaded, texts, texts.whiten_query(query), everything, limit=DEPTH)
        best = np.argsort(-_compute_scores(embeddings, whitening, query), kind="stable")[:DEPTH]
        overlaps.append(len({hit.hunk_id for hit in hits} & set(loaded.hunks.ids[best].tolist())) / DEPTH)
    detail = f"{len(subjects)} queries, lowest overlap {min(overlaps):.2f}; {len(texts.vectors):,} texts"
    missed = 1 - float(np.mean(overlaps))
    return Row(
        name, "share of the fifty best hunks by floats that the codes miss", missed, MAX_MISSED_SHARE, detail
    )


def _embed_hunks(loaded: Snapshot, text_by_hunk: dict[int, str], encoder: SearchEncoder) -> Vectors:
    """Return the embedding of each hunk's text, by position in the snapshot."""
    texts = [text_by_hunk[hunk] for hunk in loaded.hunks.ids.tolist()]
    distinct = list(dict.fromkeys(texts))
    row_by_text = {text: row for row, text in enumerate(distinct)}
    return encoder.encode(distinct)[[row_by_text[text] for text in texts]]


def _compute_scores(embeddings: Vectors, whitening: Whitening, query: Vectors) -> Floats:
    whitened = whitening.transform(embeddings.astype(np.float64))
    norms = np.linalg.norm(whitened, axis=1)
    return np.asarray(whitened @ normalize(whitening.transform_query(query.astype(np.float64))) / norms)


if __name__ == "__main__":
    main()
