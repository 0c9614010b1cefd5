"""Search of the history: `find_pattern`.

A search parses the query, runs the retrievers, fuses their rankings of hunks, reranks the candidates, selects the best
hunk of each commit and builds the answer. A hunk is the diff of one file in one commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from math import exp
from pathlib import Path
from typing import Final

import numpy as np

from pipeline.encoders.base import SearchEncoder, create_bundled_encoder
from pipeline.git.repository import Repository, open_repository
from pipeline.interrupts import check_cancelled
from pipeline.options import EncoderName
from serve.api_types import LoadedIndex, format_author_date, format_rfc3339
from serve.commit_ranges import resolve_range
from serve.errors import NeedsRebuild
from serve.evidence import EvidenceLoader, describes_commit, select_changelog_entries
from serve.excerpts import truncate_diff
from serve.find_types import ChangedFile, FindAnswer, FindMeta, FindRequest, PatternHit
from serve.index_status import (
    IndexStatus,
    add_range,
    build_compatibility,
    build_index_hints,
    build_index_state,
    build_status_without_index,
    describe_empty_index,
    load_index_status,
)
from serve.repositories import locate_index
from serve.search.cache import MAX_BYTES, IndexCache, LoadedSnapshot, SnapshotKey
from serve.search.features import compute_features
from serve.search.query import Query, parse_query, validate_request
from serve.search.query_hints import (
    EMPTY_CONTEXT,
    FUNCTION_WORDS,
    LANGUAGES,
    RepositoryContext,
    extract_content_words,
    format_date,
)
from serve.search.rerank import (
    FeatureReranker,
    Reranker,
    ScoredCandidate,
    merge_copies,
    rerank_by_features,
    score_by_fusion,
    select_best_hunks,
)
from serve.search.retrieval import Candidate, RetrieverResults, run_retrievers, select_candidates
from serve.text import UNREADABLE_HINT, format_commit_count
from stores import history, hunk_details, vector_search
from stores.compatibility import REBUILD_COMMAND, CompatibilityStatus
from stores.connections import ReaderPools
from stores.database import NotIndexed
from stores.filters import QueryFilter, to_naive_utc
from stores.hunk_details import Connection, HunkDetails, HunkSummary
from stores.vectors import quantize

# Maximum number of symbols that an answer names for each hit. A hunk with more symbols changes most of its file.
MAX_SHOWN_SYMBOLS: Final = 40
# Maximum number of files that an answer names for each commit.
MAX_SHOWN_FILES: Final = 20
# Age at which a commit's recency weight has fallen to 1/e.
RECENCY_DAYS: Final = 90.0
# Number of commits to select for each requested hit. More than one, because commits with the same patch are then merged
# into one hit.
COMPARED_COMMITS_PER_HIT: Final = 2
# Decimal places of the numbers in an answer.
SCORE_DIGITS: Final = 6
NO_PRECEDENT: Final = (
    "Every hit is weak: this may never have been done here before. "
    "Rephrase the query, or use a name from the code."
)
NO_CONTENT_WORDS: Final = (
    "The query has no word that describes a change. Say what was done, or name something in the code."
)


def find_pattern(
    request: FindRequest,
    path: Path,
    home: Path,
    *,
    load_encoder: Callable[[EncoderName], SearchEncoder] = create_bundled_encoder,
    reranker: Reranker | None = None,
    now: datetime | None = None,
) -> FindAnswer:
    """Run a single search and close the index; see `PatternSearcher.find`."""
    with closing(PatternSearcher(home, load_encoder=load_encoder)) as searcher:
        return searcher.find(request, path, now, reranker=reranker)


@dataclass(frozen=True, slots=True, eq=False)
class OpenSearch:
    """Open index, and the query parsed for its repository.

    `load_snapshot` returns the snapshot for this query. `evidence` loads the references, releases and copies of hits.
    """

    connection: Connection
    query: Query
    status: IndexStatus
    load_snapshot: Callable[[], LoadedSnapshot]
    evidence: EvidenceLoader


class PatternSearcher:
    """Searcher that caches open indexes and loaded snapshots between queries. Thread-safe.

    Indexes are under `home`. `max_bytes` limits the cached snapshots. Every query calls `load_encoder` with the name of
    the encoder that built the index. The searcher holds no encoder, so the caller can unload models between queries.
    `reader_pools`: pools of open indexes to share with other code; None for new pools.
    """

    def __init__(
        self,
        home: Path,
        *,
        load_encoder: Callable[[EncoderName], SearchEncoder] = create_bundled_encoder,
        max_bytes: int = MAX_BYTES,
        reader_pools: ReaderPools | None = None,
    ) -> None:
        self.home = home
        self.load_encoder = load_encoder
        self._cache = IndexCache(max_bytes, reader_pools)

    def find(
        self,
        request: FindRequest,
        path: Path,
        now: datetime | None = None,
        *,
        reranker: Reranker | None = None,
    ) -> FindAnswer:
        """Return the commits of the repository at `path` whose changes best match the request.

        Ages of commits and relative dates count from `now`, by default the current time. The default reranker is
        `FeatureReranker`. If `request.rerank` is False, hits have the order of rank fusion. Without an index, the
        answer has no hits and a hint.

        Raises BadRequest for an invalid request and NeedsRebuild for an index built with an incompatible encoder.
        """
        now = now or datetime.now(UTC)
        check_cancelled()
        validate_request(request, now)
        repository = open_repository(path)
        try:
            with self.open_search(request, repository, now) as search:
                reranker = reranker or FeatureReranker()
                return self._search(search, reranker if request.rerank else None)
        except NotIndexed:
            context = replace(EMPTY_CONTEXT, work_tree=_get_work_tree(repository))
            query = parse_query(request, now, context)
            return FindAnswer((), build_meta(build_status_without_index(repository), query, ()))

    @contextmanager
    def open_search(
        self, request: FindRequest, repository: Repository, now: datetime
    ) -> Iterator[OpenSearch]:
        """Open the repository's index for one search. Raises NotIndexed, NeedsRebuild and BadRequest."""
        location = locate_index(self.home, repository)
        evidence = EvidenceLoader(repository, location.git_directory)
        commit_range = resolve_range(repository, evidence.git, request.commit_range)
        try:
            with self._cache.open_index(location) as index:
                connection = index.connection
                metadata = self._cache.load_metadata(location, index)
                status = load_index_status(
                    repository,
                    connection,
                    metadata.recorded_state,
                    location=location,
                    index_holder=index.holder,
                )
                status = add_range(status, repository, evidence.git, connection, commit_range)
                source = connection, status.reachability
                evidence = replace(
                    evidence,
                    find_possible_copies=partial(hunk_details.find_possible_copies, *source),
                    find_reverts=partial(hunk_details.find_reverts, *source),
                )
                load_messages = partial(history.load_messages_with_issue_numbers, *source)
                context = RepositoryContext(
                    has_language=metadata.languages.__contains__,
                    has_path=partial(hunk_details.has_path, connection),
                    work_tree=_get_work_tree(repository),
                    find_release=evidence.find_release,
                    find_referring_commits=partial(evidence.find_referring_commits, load_messages),
                    own_names=evidence.own_names,
                    commit_range=commit_range,
                )
                query = parse_query(request, now, context)
                if status.verdict and status.verdict.status is CompatibilityStatus.NEEDS_REBUILD:
                    raise NeedsRebuild(f"The index {status.verdict}.", hint=f"Run `{REBUILD_COMMAND}`.")
                snapshot_key = SnapshotKey(location, index.fingerprint, status.reachability)
                load_snapshot = partial(self._cache.get_snapshot, snapshot_key, connection)
                yield OpenSearch(connection, query, status, load_snapshot, evidence)
        except NotIndexed:
            self._cache.evict_index(location)
            raise

    def _search(self, search: OpenSearch, reranker: Reranker | None) -> FindAnswer:
        """Return the answer to the query of an open index. Without a reranker, hits have the order of rank fusion."""
        connection, query, status = search.connection, search.query, search.status
        if not status.commits:
            return FindAnswer((), build_meta(status, query, ()))
        encoder = self.load_encoder(status.encoder_name)
        results = run_retrievers(connection, search.load_snapshot, query, encoder)
        check_cancelled()
        candidates = select_candidates(results, query)
        ranked_candidates = rank_candidates(connection, query, results, candidates, reranker)
        check_cancelled()
        best_candidates = select_hits(ranked_candidates, query, search.evidence)
        hits = build_hits(connection, query, results, best_candidates, encoder)
        return FindAnswer(search.evidence.add_to(hits), build_meta(status, query, best_candidates))

    def list_loaded_indexes(self) -> tuple[LoadedIndex, ...]:
        """Return every index in memory."""
        return self._cache.list_loaded()

    def close(self) -> None:
        """Close all indexes and empty the cache. A later search opens them again."""
        self._cache.close()


def _get_work_tree(repository: Repository) -> Path | None:
    """Return the root of the work tree, for absolute paths in a request; None for a bare repository."""
    return None if repository.is_bare else repository.root


def rank_candidates(
    connection: Connection,
    query: Query,
    results: RetrieverResults,
    candidates: Sequence[Candidate],
    reranker: Reranker | None,
) -> list[ScoredCandidate]:
    """Order the candidates by the reranker's scores; without a reranker, by the scores of rank fusion."""
    if reranker is None or not candidates:
        return score_by_fusion(candidates)
    features = compute_features(connection, query, results, candidates)
    return rerank_by_features(
        candidates,
        features,
        reranker.predict(features),
        lambda candidate: compute_recency_weight(candidate.commit_date, query),
    )


def select_hits(
    ranked_candidates: Sequence[ScoredCandidate], query: Query, evidence: EvidenceLoader
) -> tuple[ScoredCandidate, ...]:
    """Return a hunk for each of the best `query.k` commits. Commits with the same patch are one hit."""
    best_candidates = select_best_hunks(ranked_candidates, COMPARED_COMMITS_PER_HIT * query.k, query.roles)
    return merge_copied_commits(best_candidates, evidence)[: query.k]


def merge_copied_commits(
    best_candidates: Sequence[ScoredCandidate], evidence: EvidenceLoader
) -> tuple[ScoredCandidate, ...]:
    """Merge candidates whose commits have the same patch; see `merge_copies`."""
    copies = evidence.find_copies([scored.candidate.commit_sha for scored in best_candidates])
    return merge_copies(best_candidates, copies)


def compute_recency_weight(commit_date: datetime, query: Query) -> float:
    """Return the share by which a commit's recency raises its score; a future date counts as the current time."""
    age = to_naive_utc(query.now) - commit_date
    days = max(0.0, age.total_seconds() / 86_400)
    return query.retrieval_profile.recency_weight * exp(-days / RECENCY_DAYS)


def build_hits(
    connection: Connection,
    query: Query,
    results: RetrieverResults,
    best_candidates: Sequence[ScoredCandidate],
    encoder: SearchEncoder,
) -> tuple[PatternHit, ...]:
    """Build a hit for each candidate, in the same order. Texts that have no vector yet are encoded here."""
    hunk_ids = [scored.candidate.hunk_id for scored in best_candidates]
    loaded_snapshot = results.loaded_snapshot
    vectors = vector_search.get_hunk_vectors(loaded_snapshot.snapshot, loaded_snapshot.text_vectors, hunk_ids)
    if pending_rows := np.flatnonzero(~vectors.any(axis=1)).tolist():
        texts = hunk_details.load_semantic_texts(connection, [hunk_ids[row] for row in pending_rows])
        vectors[pending_rows] = quantize(encoder.encode(texts)).decode()  # rounded as in the index
    similarities = vector_search.compute_cosine_similarities(vectors, results.query_vector).tolist()
    all_details = results.details.load(hunk_ids)
    files = hunk_details.load_changed_files(connection, {details.commit_sha for details in all_details})
    changed_files = [file for commit_files in files.values() for file in commit_files]
    changelogs = [
        file.hunk_id for file in changed_files if describes_commit(file.file_path, file.added_lines)
    ]
    diffs = results.details.load_diffs(changelogs)
    return tuple(
        _build_hit(scored, details, similarity, query, files.get(details.commit_sha, []), diffs)
        for scored, details, similarity in zip(best_candidates, all_details, similarities, strict=True)
    )


def _build_hit(
    scored_candidate: ScoredCandidate,
    details: HunkDetails,
    similarity: float,
    query: Query,
    files: Sequence[HunkSummary],
    changelog_diffs: Mapping[int, str],
) -> PatternHit:
    """Build a hit. `files`: the files of the commit. `changelog_diffs`: diffs of changelogs by hunk id."""
    # The file of the hit comes first. The sort is stable, so the other files keep their order in the commit.
    shown_files = sorted(files, key=lambda file: file.file_path != details.file_path)[:MAX_SHOWN_FILES]
    excerpt = truncate_diff(details.diff, extract_content_words(query.terms))
    return PatternHit(
        commit_sha=details.commit_sha,
        commit_message=details.commit_message,
        commit_author=details.commit_author,
        commit_date=format_rfc3339(details.commit_date),
        file_path=details.file_path,
        change_kind=details.change_kind,
        diff_excerpt=excerpt,
        diff_truncated=details.diff_truncated or excerpt != details.diff,
        related_head_symbols=details.symbols[:MAX_SHOWN_SYMBOLS],
        similarity=round(similarity, SCORE_DIGITS),
        recency_weight=round(compute_recency_weight(details.commit_date, query), SCORE_DIGITS),
        combined_score=round(scored_candidate.score, SCORE_DIGITS),
        matched=str(scored_candidate.matched_terms) if scored_candidate.matched_terms else None,
        weak=scored_candidate.is_weak,
        author_date=format_author_date(details.author_date, details.commit_date),
        files=tuple(ChangedFile(*file[1:]) for file in shown_files),  # all fields but the hunk id
        file_count=len(files),
        changelog=select_changelog_entries(
            (changelog_diffs[file.hunk_id] for file in files if file.hunk_id in changelog_diffs),
            details.commit_message,
        ),
    )


def build_meta(status: IndexStatus, query: Query, best_candidates: Sequence[ScoredCandidate]) -> FindMeta:
    """Build the part of an answer that describes the index and the query, with hints about the `best_candidates`."""
    return FindMeta(
        index_status=build_index_state(status),
        hint=" ".join(_build_hints(status, query, best_candidates)) or None,
        compatibility=build_compatibility(status.verdict),
        query_profile=query.query_profile,
    )


def _build_hints(
    status: IndexStatus, query: Query, best_candidates: Sequence[ScoredCandidate]
) -> Iterable[str]:
    if (status.verdict is None or not status.commits) and not status.is_run_active:
        yield describe_empty_index(status)
        return
    yield from build_index_hints(status, uses_vectors=True)
    if answer_hint := describe_hits(query, best_candidates, [status]):
        yield answer_hint
        if answer_hint != NO_CONTENT_WORDS:
            yield from _describe_unreadable_commits(status)


def describe_hits(
    query: Query, best_candidates: Sequence[ScoredCandidate], statuses: Sequence[IndexStatus]
) -> str:
    """Return a hint about an answer without hits or with only weak hits; empty if there is nothing to say.

    `statuses`: statuses of the searched indexes. A query without content words gives a hint. For other queries,
    weak hits give no hint while commits or vectors are missing, because better hits may follow. While commits are
    missing, an answer without hits gives a hint only if the query has filters.
    """
    is_history_partial = any(status.has_partial_history for status in statuses)
    has_vectors = any(status.vector_share > 0 for status in statuses)
    has_all_vectors = all(status.vector_share == 1 for status in statuses)
    lacks_words = FUNCTION_WORDS.issuperset(query.terms)
    if lacks_words and not (best_candidates or has_vectors):
        return NO_CONTENT_WORDS
    if not best_candidates and (query.filters.has_conditions or not is_history_partial):
        return _describe_no_hits(query.filters, has_vectors=has_vectors)
    if lacks_words:
        return NO_CONTENT_WORDS
    is_complete = has_all_vectors and not is_history_partial
    if is_complete and all(scored.is_weak for scored in best_candidates):
        return _describe_weak_hits(query.filters)
    return ""


def _describe_no_hits(filters: QueryFilter, *, has_vectors: bool) -> str:
    """Return the hint for an answer without hits; empty for an empty range, which has its own hint."""
    if not filters.has_conditions:
        return (
            "HEAD reaches no indexed change." if has_vectors else "No indexed change has a word of the query."
        )
    if filters.commit_range and not filters.commit_range.commits:
        return ""
    names, unknown_language = _format_filters(filters), _describe_unknown_language(filters.language)
    if has_vectors:
        return f"No indexed change passes the filters: {names}.{unknown_language}"
    return f"No indexed change that passes the filters ({names}) has a word of the query.{unknown_language}"


def _describe_weak_hits(filters: QueryFilter) -> str:
    """Return the hint for an answer with only weak hits. If the query has filters, they may exclude better hits."""
    if not filters.has_conditions:
        return NO_PRECEDENT
    return (
        f"Every hit is weak: nothing within the filters ({_format_filters(filters)}) resembles the query. "
        "Search without them."
    )


def _describe_unreadable_commits(status: IndexStatus) -> Iterable[str]:
    if status.unreadable_commits:
        count = format_commit_count(status.unreadable_commits)
        yield f"{count} could not be read and may hold the answer. {UNREADABLE_HINT}"


def _format_filters(filters: QueryFilter) -> str:
    """Format the active filters as the user would set them."""
    values: Mapping[str, str | None] = {
        "language": filters.language,
        "since": format_date(filters.since) if filters.since else None,
        "until": format_date(filters.until) if filters.until else None,
        "path": filters.path,
        "author": filters.author,
        "release": filters.release.tag if filters.release else None,
        "range": filters.commit_range.text if filters.commit_range else None,
    }
    return ", ".join(f"{name} {value!r}" for name, value in values.items() if value is not None)


def _describe_unknown_language(language: str | None) -> str:
    """Return a sentence about a language filter that no file can have, with the most similar language."""
    if language is None or language in LANGUAGES.values():
        return ""
    similar_names = get_close_matches(language, LANGUAGES, n=1)
    if similar_names:
        return f" This language is unknown: did you mean {LANGUAGES[similar_names[0]]!r}?"
    return " This language is unknown: languages are written like `python` or `py`."
