"""The full-text lanes: their scores, their order, and what they leave out."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from random import Random

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stores.filters import Where
from stores.snapshot import Ranked
from stores.types import Reach
from tests.stores.sample_index import Doc, HeadSymbol, sha, small_index
from tests.stores.search_helpers import by_names, by_text

Lane = Callable[..., tuple[Ranked, ...]]
LANES = [by_text, by_names]
VOCABULARY = ["alpha", "beta", "gamma", "delta", "epsilon"]

sentences = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=12)
docs = st.lists(
    st.builds(
        Doc,
        commit=st.integers(0, 8),
        path=st.sampled_from(["a.py", "src/b.py", "src/deep/c.rs", "docs/d.md"]),
        words=sentences,
        symbols=st.lists(st.sampled_from(VOCABULARY), max_size=3),
        language=st.sampled_from(["python", "rust", None]),
    ),
    min_size=1,
    max_size=20,
    unique_by=lambda doc: (doc.commit, doc.path),
)


def reference(connection: duckdb.DuckDBPyConnection, query: list[str]) -> dict[int, float]:
    """Scores of DuckDB's own full-text extension over the same hunks, words parted by blanks."""
    (extension,) = Path(str(files("duckdb_extension_fts"))).rglob("*.duckdb_extension")
    connection.execute(f"LOAD '{extension}'")
    connection.execute(
        "PRAGMA create_fts_index('hunks', 'hunk_id', 'semantic_text', stemmer='none', stopwords='none',"
        r" ignore='(\s)+', lower=0, strip_accents=0, overwrite=1)"
    )
    sql = "SELECT hunk_id, fts_main_hunks.match_bm25(hunk_id, $query) FROM hunks"
    rows = connection.execute(sql, {"query": " ".join(query)}).fetchall()
    return {hunk: score for hunk, score in rows if score is not None}


@settings(max_examples=25)
@given(docs, sentences)
def test_scores_are_those_of_the_extension(documents: list[Doc], query: list[str]) -> None:
    """BM25 over the posting tables scores like DuckDB's full-text index, repeated query words included."""
    connection = small_index(documents)
    ours = {hit.hunk_id: hit.score for hit in by_text(connection, query)}
    assert ours == pytest.approx(reference(connection, query), abs=1e-9)


@settings(max_examples=40)
@given(docs, sentences, st.sampled_from(LANES), st.sampled_from(["python", "rust"]))
def test_filtered_lane_is_the_filtered_ranking(
    documents: list[Doc], query: list[str], lane: Lane, language: str
) -> None:
    """A filter drops rows of the whole ranking before the lane is cut, and changes no score."""
    connection = small_index(documents, symbols=[HeadSymbol("src/b.py", "alpha", ["beta"])])
    everything = lane(connection, query, limit=1_000)
    kept = [hit for hit in everything if documents[hit.hunk_id].language == language]
    assert list(lane(connection, query, Where(language=language), limit=3)) == kept[:3]


@settings(max_examples=25)
@given(docs, sentences, st.randoms(use_true_random=False), st.sampled_from(LANES))
def test_order_is_of_content(documents: list[Doc], query: list[str], random: Random, lane: Lane) -> None:
    """The ranking is the same whatever the order in which the rows came."""
    shuffled = list(documents)
    random.shuffle(shuffled)
    rankings = [
        [(hit.score, hit.commit_sha, hit.file_path) for hit in lane(small_index(rows), query)]
        for rows in (documents, shuffled)
    ]
    assert rankings[0] == rankings[1]


def test_equal_scores_newest_first() -> None:
    """Of equal scores the newer commit comes first, then the sha, then the path."""
    connection = small_index([Doc(1, "b.py"), Doc(1, "a.py"), Doc(2, "c.py")])
    hits = by_text(connection, ["word"])
    assert [hit.file_path for hit in hits] == ["c.py", "a.py", "b.py"]


def test_unreached_commits_leave_no_trace() -> None:
    """What HEAD does not reach is in no row and in no count: scores equal those of an index without it."""
    reached = [Doc(1, "a.py", ["alpha", "beta"]), Doc(2, "b.py", ["beta"])]
    dropped = [Doc(3, "c.py", ["alpha"] * 9)]
    with_dropped = small_index([*reached, *dropped], unreached=[3])
    assert by_text(with_dropped, ["alpha"]) == by_text(small_index(reached), ["alpha"])


def test_reach_follows_a_moved_head() -> None:
    """A commit HEAD has left is dropped, one it has come back to is ranked, whatever the index noted."""
    connection = small_index([Doc(commit, "a.py") for commit in (1, 2, 3)], unreached=[3])

    def commits(reach: Reach) -> list[str]:
        return [hit.commit_sha for hit in by_text(connection, ["word"], reach=reach)]

    assert commits(Reach()) == [sha(2), sha(1)]
    assert commits(Reach(gone=(sha(2),), back=(sha(3),))) == [sha(3), sha(1)]
    assert commits(Reach(back=(sha(1),), complete=True)) == [sha(1)]


def test_lane_ends_at_its_depth() -> None:
    """A lane gives a hundred hunks at most."""
    connection = small_index([Doc(commit, "a.py") for commit in range(120)])
    assert len(by_text(connection, ["word"])) == 100


@pytest.mark.parametrize("lane", LANES)
def test_unknown_words_find_nothing(lane: Lane) -> None:
    """Words the history never had, and no words at all, give an empty ranking."""
    connection = small_index([Doc(1, "a.py", symbols=["word"])])
    assert lane(connection, ["nowhere"]) == ()
    assert lane(connection, []) == ()


def test_head_symbols_reach_the_hunks_of_their_file() -> None:
    """A symbol of today, or its sibling, finds the hunks of its file, behind one that touched it."""
    connection = small_index(
        [Doc(1, "a.py", symbols=["connect"]), Doc(2, "b.py"), Doc(3, "c.py"), Doc(4, "d.py")],
        symbols=[HeadSymbol("b.py", "connect"), HeadSymbol("c.py", "close", ["connect"])],
    )
    hits = by_names(connection, ["connect"])
    assert [hit.file_path for hit in hits] == ["a.py", "b.py", "c.py"]


def test_quoted_name_is_meant_literally() -> None:
    """A symbol named in quotes passes one that merely holds the same word more often."""
    connection = small_index(
        [
            Doc(1, "exact.py", symbols=["send", "other", "more", "names"]),
            Doc(2, "near.py", symbols=["Send", "send"]),
        ]
    )
    connection.execute("UPDATE hunk_symbols SET name = 'Send' WHERE hunk_id = 1")
    plain = by_names(connection, ["send"])
    quoted = by_names(connection, ["send"], quoted=("send",))
    assert plain[0].file_path == "near.py"
    assert quoted[0].file_path == "exact.py"


@pytest.mark.parametrize("lane", LANES)
def test_named_path_is_preferred(lane: Lane) -> None:
    """Hunks under a path the query names come before equal ones elsewhere, which stay in the lane."""
    documents = [Doc(1, "src/net/a.py", symbols=["word"]), Doc(2, "src/b.py", symbols=["word"])]
    connection = small_index(documents)
    assert [hit.commit_sha for hit in lane(connection, ["word"])] == [sha(2), sha(1)]
    assert [hit.commit_sha for hit in lane(connection, ["word"], Where(near=("net/",)))] == [
        sha(1),
        sha(2),
    ]


def test_a_name_holds_half_of_what_is_asked() -> None:
    """One word of a long question chooses no hunk, half of what its words are worth does; quotes are exempt."""
    words = ["retry", "broken", "upload", "later"]
    documents = [
        Doc(1, "one.py", words, ["retry"]),
        Doc(2, "two.py", words, ["retry", "upload"]),
        Doc(3, "file.py", words),
        Doc(4, "rest.py", words),
    ]
    connection = small_index(documents, symbols=[HeadSymbol("file.py", "retry", ["later", "broken"])])
    assert [hit.file_path for hit in by_names(connection, words)] == ["two.py", "file.py"]
    assert {hit.file_path for hit in by_names(connection, words, quoted=("retry",))} == {
        "one.py",
        "two.py",
        "file.py",
    }


def test_common_words_are_no_symbol_names() -> None:
    """A word that most texts have finds no symbol, unless its name is in quotes; a rarer word does."""
    documents = [Doc(n, f"{n}.py", ["the"], ["other"]) for n in range(120)]
    documents.append(Doc(200, "named.py", ["rare"], ["the", "rare"]))
    connection = small_index(documents)
    assert by_names(connection, ["the"]) == ()
    assert [hit.file_path for hit in by_names(connection, ["the"], quoted=("the",))] == ["named.py"]
    assert [hit.file_path for hit in by_names(connection, ["rare", "the"])] == ["named.py"]
