"""Full-text lanes: scores, order, filters and reachability."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stores import fulltext, snapshot
from stores.duckdb_engine import load_extensions
from stores.filters import QueryFilter, QuotedSymbol
from stores.history import ReachabilityDelta
from stores.snapshot import RankedHunk
from tests.stores.sample_index import HeadSymbol, SampleHunk, create_index, make_sha
from tests.stores.search_helpers import search_names, search_text

SearchFunction = Callable[..., tuple[RankedHunk, ...]]
SEARCH_FUNCTIONS = [search_text, search_names]
VOCABULARY = ["alpha", "beta", "gamma", "delta", "epsilon"]

sentences = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=12)
hunk_lists = st.lists(
    st.builds(
        SampleHunk,
        commit=st.integers(0, 8),
        path=st.sampled_from(["a.py", "src/b.py", "src/deep/c.rs", "docs/d.md"]),
        words=sentences,
        symbols=st.lists(st.sampled_from(VOCABULARY), max_size=3),
        language=st.sampled_from(["python", "rust", None]),
    ),
    min_size=1,
    max_size=20,
    unique_by=lambda hunk: (hunk.commit, hunk.path),
)


def compute_reference_scores(connection: duckdb.DuckDBPyConnection, query: list[str]) -> dict[int, float]:
    """Return the scores of DuckDB's full-text extension over the same hunks."""
    load_extensions(connection, ["fts"])
    connection.execute(
        "PRAGMA create_fts_index('hunks', 'hunk_id', 'semantic_text', stemmer='none', stopwords='none',"
        r" ignore='(\s)+', lower=0, strip_accents=0, overwrite=1)"
    )
    sql = "SELECT hunk_id, fts_main_hunks.match_bm25(hunk_id, $query) FROM hunks"
    rows = connection.execute(sql, {"query": " ".join(query)}).fetchall()
    return {hunk: score for hunk, score in rows if score is not None}


@settings(max_examples=25)
@given(hunk_lists, sentences)
def test_scores_equal_the_extension(hunks: list[SampleHunk], query: list[str]) -> None:
    """BM25 over the posting tables gives the scores of DuckDB's full-text index, even for repeated query words."""
    connection = create_index(hunks)
    scores = {hit.hunk_id: hit.score for hit in search_text(connection, query)}
    assert scores == pytest.approx(compute_reference_scores(connection, query), abs=1e-9)


@settings(max_examples=40)
@given(hunk_lists, sentences, st.sampled_from(SEARCH_FUNCTIONS), st.sampled_from(["python", "rust"]))
def test_filter_applies_before_the_limit(
    hunks: list[SampleHunk], query: list[str], search: SearchFunction, language: str
) -> None:
    """A filter removes rows before the ranking is cut to its limit, and changes no score."""
    connection = create_index(hunks, symbols=[HeadSymbol("src/b.py", "alpha", ["beta"])])
    unfiltered = search(connection, query, limit=1_000)
    expected = [hit for hit in unfiltered if hunks[hit.hunk_id].language == language]
    assert list(search(connection, query, QueryFilter(language=language), limit=3)) == expected[:3]


@settings(max_examples=25)
@given(hunk_lists, sentences, st.randoms(use_true_random=False), st.sampled_from(SEARCH_FUNCTIONS))
def test_order_does_not_depend_on_rows(
    hunks: list[SampleHunk], query: list[str], random: Random, search: SearchFunction
) -> None:
    """The order of the rows in the tables does not change the ranking."""
    shuffled_hunks = list(hunks)
    random.shuffle(shuffled_hunks)
    rankings = [
        [(hit.score, hit.commit_sha, hit.file_path) for hit in search(create_index(rows), query)]
        for rows in (hunks, shuffled_hunks)
    ]
    assert rankings[0] == rankings[1]


@settings(max_examples=40)
@given(
    hunk_lists,
    sentences.map(lambda words: [*words, "nowhere", "ñandú"]),
    st.lists(st.integers(0, 8), max_size=4),
    st.sampled_from(SEARCH_FUNCTIONS),
)
def test_postings_in_memory(
    hunks: list[SampleHunk], query: list[str], unreachable: list[int], search: SearchFunction
) -> None:
    """Postings in memory give the same ranking and scores as those that SQL reads, also for unreachable hunks."""
    symbols = [HeadSymbol("src/b.py", "alpha", ["beta"]), HeadSymbol("gone.py", "gamma")]
    connection = create_index(
        [*hunks, SampleHunk(9, "a.py", ["ñandú", "zeta"])], symbols=symbols, unreachable=unreachable
    )
    assert search(connection, query, has_postings=True) == search(connection, query)


def test_postings_in_memory_need_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the postings are in memory, no search reads their tables; too many postings are not loaded."""
    connection = create_index(
        [SampleHunk(1, "a.py", ["alpha", "beta"])], symbols=[HeadSymbol("a.py", "alpha")]
    )
    loaded_snapshot = snapshot.load_snapshot(connection, ReachabilityDelta())
    with_postings = loaded_snapshot.with_postings(connection)
    assert with_postings.bytes > loaded_snapshot.bytes
    monkeypatch.setattr(snapshot, "MAX_CACHED_POSTINGS", 2)
    assert loaded_snapshot.with_postings(connection).postings is None
    for table in ("terms", *snapshot.POSTINGS_TABLES):
        connection.execute(f"DROP TABLE {table}")
    lookup = fulltext.look_up_terms(connection, with_postings, ["beta", "alpha", "alpha"])
    assert sorted(lookup.terms) == ["alpha", "beta"]
    mask = snapshot.apply_filter(connection, with_postings, QueryFilter())
    assert len(fulltext.search_hunk_text(with_postings, lookup, mask)) == 1
    assert len(fulltext.search_symbol_names(connection, with_postings, lookup, mask)) == 1


def test_counts_of_terms() -> None:
    """The terms of documents are counted in their order; no documents give no rows."""
    postings = fulltext.Postings(
        2, np.array([0, 1, 0]), documents=np.array([5, 5, 9]), frequencies=np.array([1, 2, 3])
    )
    assert postings.count_terms(np.array([9, 4, 5])).tolist() == [[3, 0], [0, 0], [1, 2]]
    assert postings.count_terms(np.array([], np.int64)).shape == (0, 2)


def test_order_of_equal_scores() -> None:
    """Hunks with equal scores are ordered by newest commit, then by path."""
    connection = create_index([SampleHunk(1, "b.py"), SampleHunk(1, "a.py"), SampleHunk(2, "c.py")])
    hits = search_text(connection, ["word"])
    assert [hit.file_path for hit in hits] == ["c.py", "a.py", "b.py"]


def test_unreachable_commits_are_not_counted() -> None:
    """The ranking equals that of an index without the commits that HEAD does not reach."""
    reached_hunks = [SampleHunk(1, "a.py", ["alpha", "beta"]), SampleHunk(2, "b.py", ["beta"])]
    unreachable_hunks = [SampleHunk(3, "c.py", ["alpha"] * 9)]
    with_unreachable = create_index([*reached_hunks, *unreachable_hunks], unreachable=[3])
    assert search_text(with_unreachable, ["alpha"]) == search_text(create_index(reached_hunks), ["alpha"])


def test_reachability_after_head_moved() -> None:
    """Only commits that the current HEAD reaches are ranked, even if the index has another HEAD."""
    connection = create_index([SampleHunk(commit, "a.py") for commit in (1, 2, 3)], unreachable=[3])

    def list_commits(delta: ReachabilityDelta) -> list[str]:
        return [hit.commit_sha for hit in search_text(connection, ["word"], reachability=delta)]

    assert list_commits(ReachabilityDelta()) == [make_sha(2), make_sha(1)]
    assert list_commits(ReachabilityDelta(removed_commits=(make_sha(2),), added_commits=(make_sha(3),))) == [
        make_sha(3),
        make_sha(1),
    ]
    assert list_commits(ReachabilityDelta(added_commits=(make_sha(1),), lists_all_commits=True)) == [
        make_sha(1)
    ]


def test_default_limit() -> None:
    """A search returns at most a hundred hunks by default."""
    connection = create_index([SampleHunk(commit, "a.py") for commit in range(120)])
    assert len(search_text(connection, ["word"])) == 100


@pytest.mark.parametrize("search", SEARCH_FUNCTIONS)
def test_unknown_words_find_nothing(search: SearchFunction) -> None:
    """Words that are not in the index, and no words at all, give an empty ranking."""
    connection = create_index([SampleHunk(1, "a.py", symbols=["word"])])
    assert search(connection, ["nowhere"]) == ()
    assert search(connection, []) == ()


def test_head_symbols_find_hunks_of_their_file() -> None:
    """A symbol of HEAD, or its sibling, finds the hunks of its file, after hunks that touched the symbol."""
    connection = create_index(
        [
            SampleHunk(1, "a.py", symbols=["connect"]),
            SampleHunk(2, "b.py"),
            SampleHunk(3, "c.py"),
            SampleHunk(4, "d.py"),
        ],
        symbols=[HeadSymbol("b.py", "connect"), HeadSymbol("c.py", "close", ["connect"])],
    )
    hits = search_names(connection, ["connect"])
    assert [hit.file_path for hit in hits] == ["a.py", "b.py", "c.py"]


def test_quoted_name_matches_exactly() -> None:
    """A quoted name ranks an exactly equal symbol first, even if another has the word more often."""
    connection = create_index(
        [
            SampleHunk(1, "exact.py", symbols=["send", "other", "more", "names"]),
            SampleHunk(2, "near.py", symbols=["Send", "send"]),
        ]
    )
    connection.execute("UPDATE hunk_symbols SET name = 'Send' WHERE hunk_id = 1")
    plain_hits = search_names(connection, ["send"])
    quoted_hits = search_names(connection, ["send"], quoted_symbols=(QuotedSymbol("send"),))
    assert plain_hits[0].file_path == "near.py"
    assert quoted_hits[0].file_path == "exact.py"


@pytest.mark.parametrize("parent", ["Event", "Outer.Event", "Display for Event"])
def test_quoted_parent_decides(parent: str) -> None:
    """Of two symbols with a quoted name, the one inside the quoted parent comes first, for touched and HEAD symbols."""
    quoted_symbols = (QuotedSymbol("send", "Event"),)
    connection = create_index(
        [SampleHunk(1, "event.py", symbols=["send", "other"]), SampleHunk(2, "list.py", symbols=["send"])]
    )
    assert search_names(connection, ["send"], quoted_symbols=quoted_symbols)[0].file_path == "list.py"
    connection.execute("UPDATE hunk_symbols SET parent = ? WHERE hunk_id = 0", [parent])
    connection.execute("UPDATE hunk_symbols SET parent = 'EventList' WHERE hunk_id = 1")
    assert search_names(connection, ["send"], quoted_symbols=quoted_symbols)[0].file_path == "event.py"
    connection = create_index(
        [SampleHunk(1, "event.py"), SampleHunk(2, "list.py")],
        symbols=[HeadSymbol("event.py", "send", ["other"]), HeadSymbol("list.py", "send")],
    )
    assert search_names(connection, ["send"], quoted_symbols=quoted_symbols)[0].file_path == "list.py"
    connection.execute("UPDATE head_symbols SET parent = ? WHERE file_path = 'event.py'", [parent])
    assert search_names(connection, ["send"], quoted_symbols=quoted_symbols)[0].file_path == "event.py"


@pytest.mark.parametrize("search", SEARCH_FUNCTIONS)
def test_preferred_path(search: SearchFunction) -> None:
    """Hunks under a preferred path rank before equal ones elsewhere, which stay in the ranking."""
    hunks = [SampleHunk(1, "src/net/a.py", symbols=["word"]), SampleHunk(2, "src/b.py", symbols=["word"])]
    connection = create_index(hunks)
    assert [hit.commit_sha for hit in search(connection, ["word"])] == [make_sha(2), make_sha(1)]
    assert [
        hit.commit_sha for hit in search(connection, ["word"], QueryFilter(preferred_paths=("net/",)))
    ] == [
        make_sha(1),
        make_sha(2),
    ]


def test_minimum_share_of_query_words() -> None:
    """A symbol name needs half of the query's term weights to match, unless the query quotes it."""
    words = ["retry", "broken", "upload", "later"]
    hunks = [
        SampleHunk(1, "one.py", words, ["retry"]),
        SampleHunk(2, "two.py", words, ["retry", "upload"]),
        SampleHunk(3, "file.py", words),
        SampleHunk(4, "rest.py", words),
    ]
    connection = create_index(hunks, symbols=[HeadSymbol("file.py", "retry", ["later", "broken"])])
    assert [hit.file_path for hit in search_names(connection, words)] == ["two.py", "file.py"]
    assert {
        hit.file_path for hit in search_names(connection, words, quoted_symbols=(QuotedSymbol("retry"),))
    } == {
        "one.py",
        "two.py",
        "file.py",
    }


def test_common_words_match_no_symbol() -> None:
    """A word that most texts have matches no symbol unless the query quotes it; a rarer word does."""
    hunks = [SampleHunk(n, f"{n}.py", ["the"], ["other"]) for n in range(120)]
    hunks.append(SampleHunk(200, "named.py", ["rare"], ["the", "rare"]))
    connection = create_index(hunks)
    assert search_names(connection, ["the"]) == ()
    assert [
        hit.file_path for hit in search_names(connection, ["the"], quoted_symbols=(QuotedSymbol("the"),))
    ] == ["named.py"]
    assert [hit.file_path for hit in search_names(connection, ["rare", "the"])] == ["named.py"]
