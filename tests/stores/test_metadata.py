"""The compatibility verdict and its texts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stores import database, metadata, writing
from stores.metadata import Components, Status, verdict
from tests.stores.batches import CURRENT, place_in


def test_compatible() -> None:
    """An index whose components all match is compatible."""
    found = verdict(CURRENT, CURRENT)
    assert (found.status, str(found)) == (Status.COMPATIBLE, "compatible")


@pytest.mark.parametrize("name", ["schema", "embedding_model", "embedding_dimension"])
def test_needs_rebuild(name: str) -> None:
    """Another vector-affecting component means another vector space."""
    found = verdict(replace(CURRENT, **{name: "0"}), CURRENT)
    assert found.status is Status.NEEDS_REBUILD
    assert str(found) == f"needs rebuild ({name} 0, now 1)"
    assert found.remedy == "lineage index --rebuild --yes"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("chunker_version", "lineage index --force"),
        ("reranker_model", "lineage index --force"),
        ("parser_rust", "lineage index --rebuild --yes"),
        ("semantic_text_version", "lineage index --rebuild --yes"),
        ("words_version", "lineage index --rebuild --yes"),
    ],
)
def test_needs_refresh(name: str, remedy: str) -> None:
    """Another derived component leaves vectors valid; the verdict names the command that helps."""
    found = verdict(replace(CURRENT, **{name: "0"}), CURRENT)
    assert found.status is Status.NEEDS_REFRESH
    assert str(found) == f"query-compatible, refresh recommended ({name} 0, now 1; run `{remedy}`)"


def test_unknown() -> None:
    """Components without a record are named."""
    found = verdict(replace(CURRENT, schema=None, parser_java=None), CURRENT)
    assert (found.status, found.missing) == (Status.UNKNOWN, ("schema", "parser_java"))
    assert str(found) == "unknown (no metadata for schema, parser_java)"


def test_worst_verdict_wins() -> None:
    """A difference in the vectors outweighs missing records, and those outweigh derived differences."""
    recorded = replace(CURRENT, embedding_model="0", parser_java=None, chunker_version="0")
    assert verdict(recorded, CURRENT).status is Status.NEEDS_REBUILD
    assert verdict(replace(recorded, embedding_model="1"), CURRENT).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("before", "now", "status"),
    [
        ("off", "semantic", Status.COMPATIBLE),
        ("semantic", "off", Status.COMPATIBLE),
        ("diff", "diff", Status.COMPATIBLE),
        ("off", "diff", Status.NEEDS_REBUILD),
        ("diff", "semantic", Status.NEEDS_REBUILD),
    ],
)
def test_cache_modes(before: str, now: str, status: Status) -> None:
    """Only switching into or out of `diff` changes what is embedded."""
    assert verdict(replace(CURRENT, embed_cache=before), replace(CURRENT, embed_cache=now)).status is status


def test_recorded_only_when_every_row_is_current() -> None:
    """A pass records the current version of a component only where it made all of its rows."""
    old = Components(**dict.fromkeys(metadata.NAMES, "0"))
    plain = metadata.after_pass(old, CURRENT, head_refreshed=False)
    assert plain == replace(old, reranker_model="1", embed_cache="1")
    forced = metadata.after_pass(old, CURRENT, head_refreshed=True)
    assert forced == replace(plain, chunker_version="1")
    assert metadata.after_pass(Components(), CURRENT, head_refreshed=False) == CURRENT


def test_interrupted_pass_vouches_for_nothing(tmp_path: Path) -> None:
    """Until a pass ends the verdict is unknown; a newer program that ends it cannot vouch for older rows."""
    place = place_in(tmp_path)
    newer = replace(CURRENT, words_version="2")
    with database.writing(place) as connection:
        writing.begin_pass(connection, place, head="h", unreached=[], components=CURRENT)
    with database.writing(place) as connection:
        assert verdict(metadata.recorded(connection), CURRENT).missing == metadata.NAMES
        writing.begin_pass(connection, place, head="h", unreached=[], components=newer)
        ended = metadata.after_pass(metadata.begun(connection), newer, head_refreshed=True)
        writing.record_metadata(connection, ended)
        assert metadata.recorded(connection) == CURRENT
        assert verdict(metadata.recorded(connection), newer).status is Status.NEEDS_REFRESH
