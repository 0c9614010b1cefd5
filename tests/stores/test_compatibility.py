"""The compatibility verdict and its texts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stores import compatibility, database, writer
from stores.compatibility import HEAD, HISTORY, Components, Made, Recorded, Status, verdict, vouched
from tests.stores.batches import CURRENT, Document, batch, head, place_in


def made_with(components: Components, *parts: str) -> frozenset[Made]:
    """What rows made by these versions are noted as."""
    return frozenset(
        Made(part, name, compatibility.version(components, name))
        for name in compatibility.NAMES
        for part in set(compatibility.parts(name)) & set(parts or (HISTORY, HEAD))
    )


def recorded(**changed: str | None) -> Recorded:
    """An index that other versions of these components made and vouched for."""
    components = replace(CURRENT, **changed)
    return Recorded(components, made_with(components))


def test_compatible() -> None:
    """An index whose components all match is compatible."""
    found = verdict(recorded(), CURRENT)
    assert (found.status, str(found)) == (Status.COMPATIBLE, "compatible")


@pytest.mark.parametrize("name", ["schema", "embedding_model", "embedding_dimension"])
def test_needs_rebuild(name: str) -> None:
    """Another vector-affecting component means another vector space."""
    found = verdict(recorded(**{name: "0"}), CURRENT)
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
    found = verdict(recorded(**{name: "0"}), CURRENT)
    assert found.status is Status.NEEDS_REFRESH
    assert str(found) == f"query-compatible, refresh recommended ({name} 0, now 1; run `{remedy}`)"
    assert found.remedy == remedy


def test_stale_in_the_snapshot_only() -> None:
    """Where only HEAD's rows are old, making them anew is enough."""
    made = made_with(CURRENT, HISTORY) | made_with(replace(CURRENT, parser_rust="0"), HEAD)
    found = verdict(Recorded(replace(CURRENT, parser_rust="0"), made), CURRENT)
    assert (found.status, found.remedy) == (Status.NEEDS_REFRESH, "lineage index --force")


def test_what_made_no_row_is_never_stale() -> None:
    """A new parser of a language that the repository does not have asks for nothing."""
    components = replace(CURRENT, parser_java="0")
    made = frozenset(one for one in made_with(CURRENT) if one.component != "parser_java")
    assert verdict(Recorded(components, made), CURRENT).status is Status.COMPATIBLE


def test_unknown() -> None:
    """Components without a record are named."""
    found = verdict(recorded(schema=None, parser_java=None), CURRENT)
    assert (found.status, found.missing) == (Status.UNKNOWN, ("schema", "parser_java"))
    assert str(found) == "unknown (no metadata for schema, parser_java)"


@pytest.mark.parametrize(
    ("part", "remedy"),
    [
        (None, "lineage index --force"),
        (HEAD, "lineage index --force"),
        (HISTORY, "lineage index --rebuild --yes"),
    ],
)
def test_unknown_names_the_least_that_helps(part: str | None, remedy: str) -> None:
    """A pass that only has to end, rows of HEAD that nobody noted, or rows of the history."""
    made = made_with(CURRENT) | ({Made(part, "words_version", None)} if part else set())
    found = verdict(Recorded(replace(CURRENT, words_version=None), frozenset(made)), CURRENT)
    assert (found.status, found.remedy) == (Status.UNKNOWN, remedy)


@pytest.mark.parametrize("made", [frozenset(), made_with(CURRENT)])
def test_unknown_until_a_first_pass_ends(made: frozenset[Made]) -> None:
    """Nobody vouched for anything yet: it is enough to go on, and no list of components helps."""
    found = verdict(Recorded(made=made), CURRENT)
    assert (found.status, found.missing, found.remedy) == (
        Status.UNKNOWN,
        compatibility.NAMES,
        "lineage index",
    )
    assert str(found) == "unknown (no metadata for any component until a run ends)"


def test_unknown_where_nobody_noted_what_made_the_rows() -> None:
    """Of an index older than its notes no run vouches by ending."""
    found = verdict(Recorded(made=frozenset({Made(HISTORY, "words_version", None)})), CURRENT)
    assert (found.missing, found.remedy) == (compatibility.NAMES, "lineage index --rebuild --yes")
    assert str(found).startswith("unknown (no metadata for schema, embedding_model, ")


def test_worst_verdict_wins() -> None:
    """A difference in the vectors outweighs missing records, and those outweigh derived differences."""
    changed = {"embedding_model": "0", "parser_java": None, "chunker_version": "0"}
    assert verdict(recorded(**changed), CURRENT).status is Status.NEEDS_REBUILD
    assert verdict(recorded(**changed | {"embedding_model": "1"}), CURRENT).status is Status.UNKNOWN


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
    assert verdict(recorded(embed_cache=before), replace(CURRENT, embed_cache=now)).status is status


def test_a_question_takes_any_cache_mode() -> None:
    """Who names no mode, because no hunk is embedded, has nothing against the one there is."""
    for mode in ("off", "semantic", "diff"):
        assert (
            verdict(recorded(embed_cache=mode), replace(CURRENT, embed_cache=None)).status
            is Status.COMPATIBLE
        )


def test_vouched_only_when_every_row_is_current() -> None:
    """A pass records the current version of a component only where it made all of its rows."""
    old = Components(**dict.fromkeys(compatibility.NAMES, "0"))
    after = vouched(made_with(old, HISTORY) | made_with(CURRENT), CURRENT)
    assert after == replace(old, schema="1", reranker_model="1", chunker_version="1", embed_cache="1")
    assert vouched((), CURRENT) == CURRENT
    unnoted = frozenset({Made(HISTORY, "words_version", None)})
    assert vouched(unnoted, CURRENT) == replace(CURRENT, words_version=None)


def test_rows_say_what_made_them(tmp_path: Path) -> None:
    """Each batch notes the versions at work; of the parsers only those whose language is in it."""
    place = place_in(tmp_path)
    with database.writing(place) as connection:
        writer.begin_pass(connection, place, head="h", unreached=[], components=CURRENT)
        assert compatibility.recorded(connection) == Recorded()
        writer.replace_batch(connection, batch([Document(0)]))
        made = compatibility.recorded(connection).made
        assert made == {one for one in made_with(CURRENT, HISTORY) if not one.component.startswith("parser_")}
        writer.replace_head(connection, head(["a.py"], ["f"]))
        named = {one.component for one in compatibility.recorded(connection).made if one.part == HEAD}
    assert named == {"chunker_version", "words_version", "parser_python"}


def test_interrupted_pass_vouches_for_nothing(tmp_path: Path) -> None:
    """Until a pass ends the verdict is unknown; a newer program that ends it cannot vouch for older rows."""
    place = place_in(tmp_path)
    newer = replace(CURRENT, words_version="2")
    with database.writing(place) as connection:
        writer.begin_pass(connection, place, head="h", unreached=[], components=CURRENT)
        writer.replace_batch(connection, batch([Document(0)]))
    with database.writing(place) as connection:
        assert verdict(compatibility.recorded(connection), CURRENT).missing == compatibility.NAMES
        writer.begin_pass(connection, place, head="h", unreached=[], components=newer)
        assert writer.end_pass(connection, "h", newer, head_renewed=True) == CURRENT
        assert verdict(compatibility.recorded(connection), newer).status is Status.NEEDS_REFRESH


def test_an_older_program_leaves_its_mark(tmp_path: Path) -> None:
    """Rows that an older version adds are known to the newer one, whatever was vouched for before them."""
    place = place_in(tmp_path)
    newer = replace(CURRENT, words_version="2")
    with database.writing(place) as connection:
        for number, components in enumerate([newer, CURRENT]):
            writer.begin_pass(connection, place, head="h", unreached=[], components=components)
            writer.replace_batch(connection, batch([Document(number)]))
            if components is newer:
                writer.end_pass(connection, "h", components, head_renewed=True)
        found = verdict(compatibility.recorded(connection), newer)
    assert (found.status, found.remedy) == (Status.NEEDS_REFRESH, "lineage index --rebuild --yes")
    assert found.reason == "words_version 1, now 2; run `lineage index --rebuild --yes`"


def test_a_renewed_snapshot_is_of_one_version(tmp_path: Path) -> None:
    """Once every row of HEAD is made anew, what made it before is no longer there."""
    place = place_in(tmp_path)
    newer = replace(CURRENT, chunker_version="2")
    with database.writing(place) as connection:
        for components in (CURRENT, newer):
            writer.begin_pass(connection, place, head="h", unreached=[], components=components)
            writer.replace_head(connection, head(["a.py"], ["f"]))
        between = verdict(compatibility.recorded(connection), newer)
        assert between.status is Status.UNKNOWN
        assert writer.end_pass(connection, "h", newer, head_renewed=True) == newer
        assert verdict(compatibility.recorded(connection), newer).status is Status.COMPATIBLE
