"""Full-text lanes: scores, order, filters and reachability."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from random import Random

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stores.filters import QueryFilter
from stores.snapshot import RankedHunk
from stores.types import ReachabilityDelta
from tests.stores.sample_index import Doc, HeadSymbol, create_index, sha
from tests.stores.search_helpers import search_names, search_text

SearchFunction = Callable[..., tuple[RankedHunk, ...]]
SEARCH_FUNCTIONS = [search_text, search_names]
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


def compute_reference_scores(connection: duckdb.DuckDBPyConnection, query: list[str]) -> dict[int, float]:
    """Return the scores of DuckDB's full-text extension over the same hunks."""
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
def test_scores_equal_the_extension(documents: list[Doc], query: list[str]) -> None:
    """BM25 over the posting tables gives the scores of DuckDB's full-text index, even for repeated query words."""
    connection = create_index(documents)
    scores = {hit.hunk_id: hit.score for hit in search_text(connection, query)}
    assert scores == pytest.approx(compute_reference_scores(connection, query), abs=1e-9)


@settings(max_examples=40)
@given(docs, sentences, st.sampled_from(SEARCH_FUNCTIONS), st.sampled_from(["python", "rust"]))
def test_filter_applies_before_the_limit(
    documents: list[Doc], query: list[str], search: SearchFunction, language: str
) -> None:
    """A filter removes rows before the ranking is cut to its limit, and changes no score."""
    connection = create_index(documents, symbols=[HeadSymbol("src/b.py", "alpha", ["beta"])])
    unfiltered = search(connection, query, limit=1_000)
    expected = [hit for hit in unfiltered if documents[hit.hunk_id].language == language]
    assert list(search(connection, query, QueryFilter(language=language), limit=3)) == expected[:3]


@settings(max_examples=25)
@given(docs, sentences, st.randoms(use_true_random=False), st.sampled_from(SEARCH_FUNCTIONS))
def test_order_does_not_depend_on_rows(
    documents: list[Doc], query: list[str], random: Random, search: SearchFunction
) -> None:
    """The order of the rows in the tables does not change the ranking."""
    shuffled = list(documents)
    random.shuffle(shuffled)
    rankings = [
        [(hit.score, hit.commit_sha, hit.file_path) for hit in search(create_index(rows), query)]
        for rows in (documents, shuffled)
    ]
    assert rankings[0] == rankings[1]


def test_order_of_equal_scores() -> None:
    """Hunks with equal scores are ordered by newest commit, then by path."""
    connection = create_index([Doc(1, "b.py"), Doc(1, "a.py"), Doc(2, "c.py")])
    hits = search_text(connection, ["word"])
    assert [hit.file_path for hit in hits] == ["c.py", "a.py", "b.py"]


def test_unreached_commits_are_not_counted() -> None:
    """The ranking equals that of an index without the commits that HEAD does not reach."""
    reached = [Doc(1, "a.py", ["alpha", "beta"]), Doc(2, "b.py", ["beta"])]
    unreached = [Doc(3, "c.py", ["alpha"] * 9)]
    with_unreached = create_index([*reached, *unreached], unreached=[3])
    assert search_text(with_unreached, ["alpha"]) == search_text(create_index(reached), ["alpha"])


def test_reachability_after_head_moved() -> None:
    """The present HEAD decides which commits are ranked, not the index's HEAD."""
    connection = create_index([Doc(commit, "a.py") for commit in (1, 2, 3)], unreached=[3])

    def ranked_commits(delta: ReachabilityDelta) -> list[str]:
        return [hit.commit_sha for hit in search_text(connection, ["word"], reachability=delta)]

    assert ranked_commits(ReachabilityDelta()) == [sha(2), sha(1)]
    assert ranked_commits(ReachabilityDelta(removed=(sha(2),), added=(sha(3),))) == [sha(3), sha(1)]
    assert ranked_commits(ReachabilityDelta(added=(sha(1),), complete=True)) == [sha(1)]


def test_default_limit() -> None:
    """A search returns at most a hundred hunks by default."""
    connection = create_index([Doc(commit, "a.py") for commit in range(120)])
    assert len(search_text(connection, ["word"])) == 100


@pytest.mark.parametrize("search", SEARCH_FUNCTIONS)
def test_unknown_words_find_nothing(search: SearchFunction) -> None:
    """Words that are not in the index, and no words at all, give an empty ranking."""
    connection = create_index([Doc(1, "a.py", symbols=["word"])])
    assert search(connection, ["nowhere"]) == ()
    assert search(connection, []) == ()


def test_head_symbols_find_hunks_of_their_file() -> None:
    """A symbol of HEAD, or its sibling, finds the hunks of its file, after hunks that touched the symbol."""
    connection = create_index(
        [Doc(1, "a.py", symbols=["connect"]), Doc(2, "b.py"), Doc(3, "c.py"), Doc(4, "d.py")],
        symbols=[HeadSymbol("b.py", "connect"), HeadSymbol("c.py", "close", ["connect"])],
    )
    hits = search_names(connection, ["connect"])
    assert [hit.file_path for hit in hits] == ["a.py", "b.py", "c.py"]


def test_quoted_name_matches_exactly() -> None:
    """A quoted name ranks an exactly equal symbol first, even if another has the word more often."""
    connection = create_index(
        [
            Doc(1, "exact.py", symbols=["send", "other", "more", "names"]),
            Doc(2, "near.py", symbols=["Send", "send"]),
        ]
    )
    connection.execute("UPDATE hunk_symbols SET name = 'Send' WHERE hunk_id = 1")
    plain = search_names(connection, ["send"])
    quoted = search_names(connection, ["send"], quoted_names=("send",))
    assert plain[0].file_path == "near.py"
    assert quoted[0].file_path == "exact.py"


@pytest.mark.parametrize("search", SEARCH_FUNCTIONS)
def test_preferred_path(search: SearchFunction) -> None:
    """Hunks under a preferred path rank before equal ones elsewhere, which stay in the ranking."""
    documents = [Doc(1, "src/net/a.py", symbols=["word"]), Doc(2, "src/b.py", symbols=["word"])]
    connection = create_index(documents)
    assert [hit.commit_sha for hit in search(connection, ["word"])] == [sha(2), sha(1)]
    assert [
        hit.commit_sha for hit in search(connection, ["word"], QueryFilter(preferred_paths=("net/",)))
    ] == [
        sha(1),
        sha(2),
    ]


def test_minimum_share_of_query_words() -> None:
    """A symbol match needs half of the query words by weight, unless the name is quoted."""
    words = ["retry", "broken", "upload", "later"]
    documents = [
        Doc(1, "one.py", words, ["retry"]),
        Doc(2, "two.py", words, ["retry", "upload"]),
        Doc(3, "file.py", words),
        Doc(4, "rest.py", words),
    ]
    connection = create_index(documents, symbols=[HeadSymbol("file.py", "retry", ["later", "broken"])])
    assert [hit.file_path for hit in search_names(connection, words)] == ["two.py", "file.py"]
    assert {hit.file_path for hit in search_names(connection, words, quoted_names=("retry",))} == {
        "one.py",
        "two.py",
        "file.py",
    }


def test_common_words_match_no_symbol() -> None:
    """A word of most texts matches no symbol unless it is quoted; a rarer word does."""
    documents = [Doc(n, f"{n}.py", ["the"], ["other"]) for n in range(120)]
    documents.append(Doc(200, "named.py", ["rare"], ["the", "rare"]))
    connection = create_index(documents)
    assert search_names(connection, ["the"]) == ()
    assert [hit.file_path for hit in search_names(connection, ["the"], quoted_names=("the",))] == ["named.py"]
    assert [hit.file_path for hit in search_names(connection, ["rare", "the"])] == ["named.py"]
