"""Replacement of outdated symbols and terms of recorded hunks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from stores import compatibility, database, pending_work, writer
from stores.compatibility import HISTORY_PART, RowVersion
from stores.pending_work import RefreshedRows
from tests.stores.batches import CURRENT_VERSIONS, SampleCommit, make_batch, make_location


def test_refreshed_postings_are_not_clustered(tmp_path: Path) -> None:
    """The next compaction sorts the new postings: they are at the end of the table, as those of new hunks are."""
    location = make_location(tmp_path)
    with database.open_for_writing(location) as connection:
        writer.record_run_start(connection, location, head="h", unreached=[], components=CURRENT_VERSIONS)
        writer.replace_batch(connection, make_batch([SampleCommit(number) for number in range(5)]))
        connection.execute("UPDATE repository SET clustered_hunks = 5")
        rows = make_batch([SampleCommit(number) for number in range(3, 5)])
        pending_work.replace_rows(
            connection,
            RefreshedRows(
                hunks=pa.table(rows.hunks).set_column(0, "hunk_id", pa.array([3, 4])),
                hunk_symbols=rows.hunk_symbols.slice(0, 0),
                hunk_terms=rows.hunk_terms.slice(0, 0),
                symbol_terms=rows.symbol_terms.slice(0, 0),
            ),
        )
        assert connection.execute("SELECT clustered_hunks FROM repository").fetchall() == [(3,)]


def test_refresh_of_unknown_version(tmp_path: Path) -> None:
    """Rows of a component without a recorded version have the current one after a refresh."""
    location = make_location(tmp_path)
    newer = replace(CURRENT_VERSIONS, words_version="2")
    with database.open_for_writing(location) as connection:
        writer.record_run_start(connection, location, head="h", unreached=[], components=CURRENT_VERSIONS)
        writer.replace_batch(connection, make_batch([SampleCommit(0)]))
        connection.execute("UPDATE made_by SET version = NULL WHERE component = 'words_version'")
        writer.record_run_start(connection, location, head="h", unreached=[], components=newer)
        commits = pending_work.start_refresh(connection, ["words_version"])
        assert commits["hunk_ids"].to_pylist() == [[0]]
        started = compatibility.load_recorded_versions(connection).select_row_versions("words_version")
        assert {row.version for row in started} == {None, "2"}
        pending_work.finish_refresh(connection, ["words_version"])
        assert compatibility.load_recorded_versions(connection).select_row_versions("words_version") == (
            RowVersion(HISTORY_PART, "words_version", "2"),
        )
