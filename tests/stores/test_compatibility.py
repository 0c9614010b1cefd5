"""Compatibility verdicts and their texts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stores import compatibility, database, writer
from stores.compatibility import (
    HEAD_PART,
    HISTORY_PART,
    CompatibilityStatus,
    ComponentVersions,
    RecordedVersions,
    RowVersion,
    check_compatibility,
    confirm_versions,
)
from tests.stores.batches import CURRENT_VERSIONS, SampleCommit, make_batch, make_head_change, make_location


def build_row_versions(components: ComponentVersions, *parts: str) -> frozenset[RowVersion]:
    """Return the recorded versions of rows that these components wrote, in these parts or both."""
    return frozenset(
        RowVersion(part, name, components.get(name))
        for name in compatibility.COMPONENT_NAMES
        for part in set(compatibility.get_component_parts(name)) & set(parts or (HISTORY_PART, HEAD_PART))
    )


def build_record(**versions: str | None) -> RecordedVersions:
    """Return the record of an index whose rows and newest finished run have these versions, and else current ones."""
    components = replace(CURRENT_VERSIONS, **versions)
    return RecordedVersions(components, build_row_versions(components))


def test_compatible() -> None:
    """An index whose components all match is compatible."""
    verdict = check_compatibility(build_record(), CURRENT_VERSIONS)
    assert (verdict.status, str(verdict)) == (CompatibilityStatus.COMPATIBLE, "compatible")


@pytest.mark.parametrize(
    "name", ["schema", "embedding_model", "embedding_dimension", "semantic_text_version"]
)
def test_needs_rebuild(name: str) -> None:
    """A changed vector-affecting component needs a rebuild."""
    verdict = check_compatibility(build_record(**{name: "0"}), CURRENT_VERSIONS)
    assert verdict.status is CompatibilityStatus.NEEDS_REBUILD
    assert str(verdict) == f"needs rebuild ({name} 0, now 1)"
    assert verdict.remedy == "lineage index --rebuild --yes"


@pytest.mark.parametrize("name", ["chunker_version", "reranker_model", "parser_rust", "words_version"])
def test_needs_refresh(name: str) -> None:
    """A changed component of derived data leaves the vectors valid, and `--force` refreshes its rows."""
    verdict = check_compatibility(build_record(**{name: "0"}), CURRENT_VERSIONS)
    assert verdict.status is CompatibilityStatus.NEEDS_REFRESH
    assert (
        str(verdict)
        == f"query-compatible, refresh recommended ({name} 0, now 1; run `lineage index --force`)"
    )
    assert verdict.remedy == "lineage index --force"


def test_stale_head_snapshot() -> None:
    """If only rows of the HEAD snapshot are outdated, `--force` is enough."""
    rows = build_row_versions(CURRENT_VERSIONS, HISTORY_PART) | build_row_versions(
        replace(CURRENT_VERSIONS, parser_rust="0"), HEAD_PART
    )
    verdict = check_compatibility(
        RecordedVersions(replace(CURRENT_VERSIONS, parser_rust="0"), rows), CURRENT_VERSIONS
    )
    assert (verdict.status, verdict.remedy) == (CompatibilityStatus.NEEDS_REFRESH, "lineage index --force")


def test_parser_without_rows_is_compatible() -> None:
    """A new parser version of a language without rows in the index changes nothing."""
    components = replace(CURRENT_VERSIONS, parser_java="0")
    rows = frozenset(row for row in build_row_versions(CURRENT_VERSIONS) if row.component != "parser_java")
    assert (
        check_compatibility(RecordedVersions(components, rows), CURRENT_VERSIONS).status
        is CompatibilityStatus.COMPATIBLE
    )


def test_unknown() -> None:
    """Components without a recorded version make the status unknown and are listed."""
    verdict = check_compatibility(build_record(schema=None, parser_java=None), CURRENT_VERSIONS)
    assert (verdict.status, verdict.missing) == (CompatibilityStatus.UNKNOWN, ("schema", "parser_java"))
    assert str(verdict) == "unknown (no metadata for schema, parser_java)"


@pytest.mark.parametrize(
    ("part", "name", "remedy"),
    [
        (None, "words_version", "lineage index --force"),
        (HEAD_PART, "words_version", "lineage index --force"),
        (HISTORY_PART, "words_version", "lineage index --force"),
        (HISTORY_PART, "semantic_text_version", "lineage index --rebuild --yes"),
    ],
)
def test_unknown_version_remedy(part: str | None, name: str, remedy: str) -> None:
    """Unknown vectors need a rebuild; `--force` suffices for other rows and for an unconfirmed component."""
    rows = build_row_versions(CURRENT_VERSIONS) | ({RowVersion(part, name, None)} if part else set())
    unknown: dict[str, None] = {name: None}
    verdict = check_compatibility(
        RecordedVersions(replace(CURRENT_VERSIONS, **unknown), frozenset(rows)), CURRENT_VERSIONS
    )
    assert (verdict.status, verdict.remedy) == (CompatibilityStatus.UNKNOWN, remedy)


@pytest.mark.parametrize("rows", [frozenset(), build_row_versions(CURRENT_VERSIONS)])
def test_unfinished_first_run_is_unknown(rows: frozenset[RowVersion]) -> None:
    """Until the first run ends the status is unknown, with `lineage index` as remedy and without a list."""
    verdict = check_compatibility(RecordedVersions(row_versions=rows), CURRENT_VERSIONS)
    assert (verdict.status, verdict.missing, verdict.remedy) == (
        CompatibilityStatus.UNKNOWN,
        compatibility.COMPONENT_NAMES,
        "lineage index",
    )
    assert str(verdict) == "unknown (no metadata for any component until a run ends)"


def test_unrecorded_rows_need_rebuild() -> None:
    """Vectors from before versions were recorded need a rebuild; a finished run is not enough."""
    verdict = check_compatibility(
        RecordedVersions(row_versions=frozenset({RowVersion(HISTORY_PART, "embedding_model", None)})),
        CURRENT_VERSIONS,
    )
    assert (verdict.missing, verdict.remedy) == (
        compatibility.COMPONENT_NAMES,
        "lineage index --rebuild --yes",
    )
    assert str(verdict).startswith("unknown (no metadata for schema, embedding_model, ")


def test_worst_verdict_wins() -> None:
    """A needed rebuild hides unknown versions, and unknown versions hide a recommended refresh."""
    changed = {"embedding_model": "0", "parser_java": None, "chunker_version": "0"}
    assert (
        check_compatibility(build_record(**changed), CURRENT_VERSIONS).status
        is CompatibilityStatus.NEEDS_REBUILD
    )
    assert (
        check_compatibility(build_record(**changed | {"embedding_model": "1"}), CURRENT_VERSIONS).status
        is CompatibilityStatus.UNKNOWN
    )


@pytest.mark.parametrize(
    ("before", "now", "status"),
    [
        ("off", "semantic", CompatibilityStatus.COMPATIBLE),
        ("semantic", "off", CompatibilityStatus.COMPATIBLE),
        ("diff", "diff", CompatibilityStatus.COMPATIBLE),
        ("off", "diff", CompatibilityStatus.NEEDS_REBUILD),
        ("diff", "semantic", CompatibilityStatus.NEEDS_REBUILD),
    ],
)
def test_cache_modes(before: str, now: str, status: CompatibilityStatus) -> None:
    """Only switching to or from the mode `diff` needs a rebuild."""
    assert (
        check_compatibility(
            build_record(embed_cache=before), replace(CURRENT_VERSIONS, embed_cache=now)
        ).status
        is status
    )


def test_query_accepts_any_cache_mode() -> None:
    """A program that embeds no hunks, and so has no cache mode, is compatible with every mode."""
    for mode in ("off", "semantic", "diff"):
        assert (
            check_compatibility(
                build_record(embed_cache=mode), replace(CURRENT_VERSIONS, embed_cache=None)
            ).status
            is CompatibilityStatus.COMPATIBLE
        )


def test_confirmed_versions_cover_every_row() -> None:
    """A finished run confirms the current version of a component only if all of its rows have it."""
    old = ComponentVersions(**dict.fromkeys(compatibility.COMPONENT_NAMES, "0"))
    confirmed = confirm_versions(
        build_row_versions(old, HISTORY_PART) | build_row_versions(CURRENT_VERSIONS), CURRENT_VERSIONS
    )
    assert confirmed == replace(old, schema="1", reranker_model="1", chunker_version="1", embed_cache="1")
    assert confirm_versions((), CURRENT_VERSIONS) == CURRENT_VERSIONS
    unrecorded = frozenset({RowVersion(HISTORY_PART, "words_version", None)})
    assert confirm_versions(unrecorded, CURRENT_VERSIONS) == replace(CURRENT_VERSIONS, words_version=None)


def test_batches_record_versions(tmp_path: Path) -> None:
    """Each batch records the current versions, but only of parsers whose language it contains."""
    location = make_location(tmp_path)
    with database.open_for_writing(location) as connection:
        writer.record_run_start(
            connection, location, head="h", unreachable=[], components=CURRENT_VERSIONS, branch_patterns=()
        )
        assert compatibility.load_recorded_versions(connection) == RecordedVersions(
            unfinished_embed_cache="1"
        )
        writer.replace_batch(connection, make_batch([SampleCommit(0)]))
        rows = compatibility.load_recorded_versions(connection).row_versions
        assert rows == {
            row
            for row in build_row_versions(CURRENT_VERSIONS, HISTORY_PART)
            if not row.component.startswith("parser_")
        }
        writer.replace_head(connection, make_head_change(["a.py"], ["f"]))
        head_components = {
            row.component
            for row in compatibility.load_recorded_versions(connection).row_versions
            if row.part == HEAD_PART
        }
    assert head_components == {"chunker_version", "words_version", "parser_python"}


def test_interrupted_run_confirms_nothing(tmp_path: Path) -> None:
    """Until a run ends the status is unknown; a newer program that finishes it does not confirm older rows."""
    location = make_location(tmp_path)
    newer = replace(CURRENT_VERSIONS, words_version="2")
    with database.open_for_writing(location) as connection:
        writer.record_run_start(
            connection, location, head="h", unreachable=[], components=CURRENT_VERSIONS, branch_patterns=()
        )
        writer.replace_batch(connection, make_batch([SampleCommit(0)]))
    with database.open_for_writing(location) as connection:
        assert (
            check_compatibility(compatibility.load_recorded_versions(connection), CURRENT_VERSIONS).missing
            == compatibility.COMPONENT_NAMES
        )
        writer.record_run_start(
            connection, location, head="h", unreachable=[], components=newer, branch_patterns=()
        )
        assert (
            writer.record_run_end(
                connection, "h", newer, is_head_rebuilt=True, is_complete=True, branch_tips=()
            )
            == CURRENT_VERSIONS
        )
        assert (
            check_compatibility(compatibility.load_recorded_versions(connection), newer).status
            is CompatibilityStatus.NEEDS_REFRESH
        )


def test_rows_of_older_program_are_detected(tmp_path: Path) -> None:
    """Rows added by an older program need a refresh, even after a newer program confirmed all versions."""
    location = make_location(tmp_path)
    newer = replace(CURRENT_VERSIONS, words_version="2")
    with database.open_for_writing(location) as connection:
        for number, components in enumerate([newer, CURRENT_VERSIONS]):
            writer.record_run_start(
                connection, location, head="h", unreachable=[], components=components, branch_patterns=()
            )
            writer.replace_batch(connection, make_batch([SampleCommit(number)]))
            if components is newer:
                writer.record_run_end(
                    connection, "h", components, is_head_rebuilt=True, is_complete=True, branch_tips=()
                )
        verdict = check_compatibility(compatibility.load_recorded_versions(connection), newer)
    assert (verdict.status, verdict.remedy) == (CompatibilityStatus.NEEDS_REFRESH, "lineage index --force")
    assert verdict.reason == "words_version 1, now 2; run `lineage index --force`"


def test_rebuilt_head_has_one_version(tmp_path: Path) -> None:
    """After all rows of HEAD were rebuilt, their former versions are no longer recorded."""
    location = make_location(tmp_path)
    newer = replace(CURRENT_VERSIONS, chunker_version="2")
    with database.open_for_writing(location) as connection:
        for components in (CURRENT_VERSIONS, newer):
            writer.record_run_start(
                connection, location, head="h", unreachable=[], components=components, branch_patterns=()
            )
            writer.replace_head(connection, make_head_change(["a.py"], ["f"]))
        verdict = check_compatibility(compatibility.load_recorded_versions(connection), newer)
        assert verdict.status is CompatibilityStatus.UNKNOWN
        assert (
            writer.record_run_end(
                connection, "h", newer, is_head_rebuilt=True, is_complete=True, branch_tips=()
            )
            == newer
        )
        assert (
            check_compatibility(compatibility.load_recorded_versions(connection), newer).status
            is CompatibilityStatus.COMPATIBLE
        )
