"""Search of several indexes at once. The hits are merged by probability.

Each index runs its own retrievers and fusion. The features of a candidate mean the same in every repository, so the
probability computed from them selects the best candidates of all indexes, without a cross-encoder. Only the selected
candidates are reranked, as many in total as for one index. See "Answers from several repositories" in serve/README.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from contextvars import copy_context
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.encoders.base import SearchEncoder
from pipeline.encoders.cross_encoder import ChangeText
from pipeline.git.errors import NotARepository
from pipeline.git.repository import Repository, open_repository
from pipeline.interrupts import check_cancelled
from pipeline.options import EncoderName
from pipeline.workers import count_usable_cpus
from serve.api_types import IndexState, NamedRepository
from serve.errors import NoAnswer
from serve.find_types import FindAnswer, FindMeta, FindRequest, PatternHit
from serve.index_status import (
    build_compatibility,
    build_index_hints,
    build_index_state,
    describe_empty_index,
)
from serve.search.features import CandidateFeatures, compute_features
from serve.search.find_pattern import (
    COMPARED_COMMITS_PER_HIT,
    OpenSearch,
    PatternSearcher,
    build_hits,
    compute_recency_weight,
    describe_hits,
    merge_copied_commits,
)
from serve.search.query import validate_request
from serve.search.rerank import (
    FeatureReranker,
    Reranker,
    ScoredCandidate,
    get_sort_key,
    rerank_by_features,
    select_best_hunks,
)
from serve.search.retrieval import Candidate, RetrieverResults, run_retrievers_with_vector, select_candidates
from serve.text import add_path_to_commands
from stores.compatibility import CompatibilityStatus
from stores.database import NotIndexed
from stores.errors import LineageError, to_lineage_error
from stores.snapshot import Floats

# Maximum number of failures, and of hints about indexes, in an answer. Further ones are only counted.
MAX_LISTED: Final = 3
# Minimum commits of an index that is searched in a thread of its own. Smaller indexes share a thread, because Python
# runs one thread at a time: for 20 indexes of 300 commits, this took 20 % less time than a thread for each.
LARGE_INDEX_COMMITS: Final = 1_000


def find_in_repositories(
    searcher: PatternSearcher,
    request: FindRequest,
    repositories: Sequence[NamedRepository],
    now: datetime | None = None,
    *,
    reranker: Reranker | None = None,
) -> FindAnswer:
    """Return the commits of several repositories whose changes best match the request, merged by probability.

    A commit that several repositories have is a hit of the repository where it has the highest score. Without
    `request.rerank`, `FeatureReranker` is used, because scores of rank fusion are not comparable between indexes.
    The hint names the repositories that cannot answer. Raises BadRequest, and NoAnswer if none can answer.
    """
    now = now or datetime.now(UTC)
    validate_request(request, now)
    if not request.rerank or reranker is None:
        reranker = FeatureReranker()
    # Opening is slow if an index must be read, or if git looks up a range, or a release or issue (with a digit).
    may_be_cached = len(searcher.list_loaded_indexes()) >= len(repositories)
    opens_slowly = not may_be_cached or bool(request.commit_range or re.search(r"\d", request.text))
    with ExitStack() as stack:
        vectors = stack.enter_context(closing(_QueryVectorCache(searcher.load_encoder)))
        searches = [
            _IndexSearch(searcher, repository, request, now, vectors) for repository in sorted(repositories)
        ]
        for search in searches:
            stack.callback(search.close)
            search.needs_thread = opens_slowly
        merged = _MergedSearch(searches)
        merged.run_step(_IndexSearch.open)
        merged.run_step(_IndexSearch.retrieve)
        merged.select_candidates()
        merged.rerank(reranker)
        merged.keep_best_commits(COMPARED_COMMITS_PER_HIT)
        merged.run_step(_IndexSearch.merge_copies)
        merged.keep_best_commits()
        merged.run_step(_IndexSearch.build_hits)
        merged.drop_failed_hits()
        return merged.build_answer()


class _QueryVectorCache:
    """Query vectors by encoder, shared by the searches of all indexes and computed in one thread. Thread-safe."""

    def __init__(self, load_encoder: Callable[[EncoderName], SearchEncoder]) -> None:
        self.load_encoder = load_encoder
        self._pool = ThreadPoolExecutor(1, "encoder")
        self._lock = Lock()
        self._vectors: dict[tuple[EncoderName, str], Future[NDArray[np.float32]]] = {}

    def encode(self, name: EncoderName, text: str) -> Future[NDArray[np.float32]]:
        """Return a future for a matrix whose only row is the vector of the text."""
        with self._lock:
            if (name, text) not in self._vectors:
                self._vectors[name, text] = self._pool.submit(
                    lambda: self.load_encoder(name).encode_queries([text])
                )
            return self._vectors[name, text]

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(cancel_futures=True)


class _IndexSearch:
    """Search of one index, which stays open until `close`, so that all steps read the same state.

    A step that fails closes the index and raises the error.

    - `error`: error of reading the changes for the cross-encoder; None if there was none.
    - `needs_thread`: True if the next step is run in a thread of its own. After `open`, only large indexes need one.
    - `ranked_candidates`: candidates in the order of `FeatureReranker`.
    - `rerank_ids`: ids of the hunks to rerank.
    - `best_candidates`: reranked candidates, one for each commit, the best first. Later, only those of the hits remain.
    """

    def __init__(
        self,
        searcher: PatternSearcher,
        repository: NamedRepository,
        request: FindRequest,
        now: datetime,
        vectors: _QueryVectorCache,
    ) -> None:
        self.repository = repository
        self.error: LineageError | None = None
        self.needs_thread = False
        self.ranked_candidates: list[ScoredCandidate] = []
        self.rerank_ids: set[int] = set()
        self.best_candidates: tuple[ScoredCandidate, ...] = ()
        self.hits: tuple[PatternHit, ...] = ()
        self.open_search: OpenSearch
        self._searcher, self._request, self._now, self._vectors = searcher, request, now, vectors
        self._stack = ExitStack()
        self._results: RetrieverResults
        self._candidates: tuple[Candidate, ...] = ()
        self._features: CandidateFeatures

    def open(self) -> None:
        """Open the index."""
        with self._close_on_error():
            self.open_search = self._stack.enter_context(
                self._searcher.open_search(self._request, self._open_repository(), self._now)
            )
        self.needs_thread = self.open_search.status.commits >= LARGE_INDEX_COMMITS

    def retrieve(self) -> None:
        """Retrieve candidates and rank them by their features."""
        search = self.open_search
        if not search.status.commits:
            return
        with self._close_on_error():
            encoded_query = self._vectors.encode(search.status.encoder_name, search.query.text)
            self._results = run_retrievers_with_vector(
                search.connection, search.load_snapshot, search.query, encoded_query
            )
            self._candidates = select_candidates(self._results, search.query)
            if self._candidates:
                self._features = compute_features(
                    search.connection, search.query, self._results, self._candidates
                )
                probabilities = FeatureReranker().predict(self._features)
                self.ranked_candidates = self._rank(self._candidates, self._features, probabilities)

    def keep_selected(self) -> CandidateFeatures:
        """Keep only the candidates in `rerank_ids`, and return their features."""
        ids = [candidate.hunk_id for candidate in self._candidates]
        indices = [index for index, hunk_id in enumerate(ids) if hunk_id in self.rerank_ids]
        self._candidates = tuple(self._candidates[index] for index in indices)
        self._features = features = self._features.select(indices)
        return replace(
            features, rerank_inputs=replace(features.rerank_inputs, load_changes=self._load_changes)
        )

    def _load_changes(self, indices: Sequence[int]) -> list[ChangeText]:
        """Return the changes of candidates for the cross-encoder. On failure, set `error` and return empty changes."""
        try:
            with self._close_on_error():
                return self._features.rerank_inputs.load_changes(indices)
        except Exception as error:
            self.error = to_lineage_error(error)
            if self.error is None:
                raise
            return [ChangeText("", "")] * len(indices)

    def select_best_hunks(self, probabilities: Floats) -> None:
        """Select the best hunk of each commit. `probabilities`: of the candidates that `keep_selected` kept."""
        query = self.open_search.query
        ranked = self._rank(self._candidates, self._features, probabilities)
        self.best_candidates = select_best_hunks(ranked, COMPARED_COMMITS_PER_HIT * query.k, query.roles)

    def merge_copies(self) -> None:
        """Merge the best candidates whose commits have the same patch."""
        if not self.best_candidates:
            return
        with self._close_on_error():
            self.best_candidates = merge_copied_commits(self.best_candidates, self.open_search.evidence)

    def build_hits(self) -> None:
        """Build the hits of `best_candidates`."""
        if not self.best_candidates:
            return
        search = self.open_search
        encoder = self._vectors.load_encoder(search.status.encoder_name)
        with self._close_on_error():
            hits = build_hits(search.connection, search.query, self._results, self.best_candidates, encoder)
            hits = search.evidence.add_to(hits)
        self.hits = tuple(replace(hit, repository=self.repository.name) for hit in hits)

    def close(self) -> None:
        """Close the index."""
        self._stack.close()

    def _open_repository(self) -> Repository:
        """Open the repository. Raise NotARepository if its directory is no longer the root of a repository."""
        path = Path(self.repository.path)
        repository = None
        with suppress(NotARepository):
            repository = open_repository(path)
        # For a path inside a repository, `open_repository` opens the enclosing repository.
        if repository is None or repository.canonical_path != path:
            raise NotARepository(
                f"{path} is no longer a repository.",
                hint="`lineage gc` deletes indexes of such repositories.",
            )
        return repository

    def _rank(
        self, candidates: Sequence[Candidate], features: CandidateFeatures, probabilities: Floats
    ) -> list[ScoredCandidate]:
        """Return the candidates in the order of their scores; see `rerank_by_features`."""

        def compute_weight(candidate: Candidate) -> float:
            return compute_recency_weight(candidate.commit_date, self.open_search.query)

        return rerank_by_features(candidates, features, probabilities, compute_weight)

    @contextmanager
    def _close_on_error(self) -> Iterator[None]:
        """If the body fails, close the index and let its context manager translate the error."""
        try:
            yield
        except BaseException:
            self._stack.__exit__(*sys.exc_info())
            raise


class _MergedSearch:
    """Searches of several indexes, in the order of the repositories' names.

    `searches`: searches that have not failed. `failures`: errors of the failed searches. `_pairs`: best candidates of
    all searches, each with its search, in the order of the answer.
    """

    def __init__(self, searches: list[_IndexSearch]) -> None:
        self.searches = searches
        self.failures: dict[NamedRepository, LineageError] = {}
        self._pairs: list[tuple[ScoredCandidate, _IndexSearch]] = []

    def run_step(self, step: Callable[[_IndexSearch], None]) -> None:
        """Run a step of every search. Searches that fail are left out from then on."""

        def run(search: _IndexSearch) -> LineageError | None:
            check_cancelled()
            try:
                step(search)
            except Exception as error:
                lineage_error = to_lineage_error(error)
                if lineage_error is None:
                    raise
                return lineage_error
            return None

        pool = ThreadPoolExecutor(count_usable_cpus(), "search")
        try:
            # The other threads get the context of this thread, so that they notice if this request is cancelled.
            futures = {
                search: pool.submit(copy_context().run, run, search)
                for search in self.searches
                if search.needs_thread
            }
            errors = {search: run(search) for search in self.searches if not search.needs_thread}
            errors |= {search: future.result() for search, future in futures.items()}
        finally:
            pool.shutdown(cancel_futures=True)
        self._drop_failed(errors)

    def _drop_failed(self, errors: Mapping[_IndexSearch, LineageError | None]) -> None:
        """Leave out the searches that have an error. Raises NoAnswer if none is left."""
        self.failures |= {search.repository: error for search, error in errors.items() if error}
        self.searches = [search for search in self.searches if not errors[search]]
        if not self.searches:
            raise NoAnswer(" ".join(self._describe_failures()) or "No repository is indexed.")

    def select_candidates(self) -> None:
        """Select the candidates to rerank: the best candidates of all indexes, together as many as for one index.

        A hunk that several indexes have is selected only in the index where its score is highest.
        """
        hunk_keys: set[tuple[str, str]] = set()
        ranked = ((scored, search) for search in self.searches for scored in search.ranked_candidates)
        count = max(search.open_search.query.retrieval_profile.candidate_count for search in self.searches)
        for scored, search in sorted(ranked, key=_get_pair_sort_key):
            candidate = scored.candidate
            key = candidate.commit_sha, candidate.file_path
            if len(hunk_keys) < count and key not in hunk_keys:
                hunk_keys.add(key)
                search.rerank_ids.add(candidate.hunk_id)

    def rerank(self, reranker: Reranker) -> None:
        """Rerank the selected candidates of all indexes together, so that a cross-encoder reads all changes at once."""
        searches = [search for search in self.searches if search.rerank_ids]
        if not searches:
            return
        features = [search.keep_selected() for search in searches]
        ends = np.cumsum([len(group.commits) for group in features])
        probabilities = np.split(reranker.predict(CandidateFeatures.concatenate(features)), ends[:-1])
        for search, own_probabilities in zip(searches, probabilities, strict=True):
            search.select_best_hunks(own_probabilities)
        self._drop_failed({search: search.error for search in self.searches})

    def keep_best_commits(self, commits_per_hit: int = 1) -> None:
        """Keep the best candidates of all indexes, `commits_per_hit` for each requested hit.

        A commit that several indexes have is kept only where its score is best; in a tie, in the first index by name.
        """
        best = ((scored, search) for search in self.searches for scored in search.best_candidates)
        by_commit: dict[str, tuple[ScoredCandidate, _IndexSearch]] = {}
        for scored, search in sorted(best, key=_get_pair_sort_key):
            by_commit.setdefault(scored.candidate.commit_sha, (scored, search))
        count = commits_per_hit * self.searches[0].open_search.query.k
        self._pairs = list(islice(by_commit.values(), count))
        for search in self.searches:
            search.best_candidates = tuple(scored for scored, owner in self._pairs if owner is search)

    def drop_failed_hits(self) -> None:
        """Drop the best candidates of searches that failed while they built the hits."""
        self._pairs = [pair for pair in self._pairs if pair[1] in self.searches]

    def build_answer(self) -> FindAnswer:
        """Build the answer. The hits of each search are in the order of its best candidates."""
        hits = {search.repository: iter(search.hits) for search in self.searches}
        statuses = [search.open_search.status for search in self.searches]
        compatibilities = [build_compatibility(status.verdict) for status in statuses]
        compatible = CompatibilityStatus.COMPATIBLE.value
        incompatible = [entry for entry in compatibilities if entry.status != compatible]
        indexed_at = [state.indexed_at for state in map(build_index_state, statuses) if state.indexed_at]
        return FindAnswer(
            tuple(next(hits[search.repository]) for _, search in self._pairs),
            FindMeta(
                index_status=IndexState(
                    last_indexed_commit=None,
                    commits_behind_head=sum(status.commits_behind for status in statuses),
                    indexed_at=min(indexed_at, default=None),
                ),
                hint=" ".join(filter(None, self._build_hints())) or None,
                compatibility=(incompatible or compatibilities)[0],
                query_profile=self.searches[0].open_search.query.query_profile,
            ),
        )

    def _build_hints(self) -> Iterator[str]:
        yield from self._describe_failures()
        hints = {search.repository: " ".join(_build_index_hints(search)) for search in self.searches}
        yield from _list_texts(
            {repository: hint for repository, hint in hints.items() if hint},
            "Other indexes with hints: {count}. `lineage status --all` lists them.",
        )
        if any(search.open_search.status.commits for search in self.searches):
            yield describe_hits(
                self.searches[0].open_search.query,
                [scored for scored, _ in self._pairs],
                [search.open_search.status for search in self.searches],
            )

    def _describe_failures(self) -> Iterator[str]:
        failures = {
            repository: f"no answer, because: {_format_error(error)}"
            for repository, error in sorted(self.failures.items())
        }
        return _list_texts(
            failures, "Other repositories without an answer: {count}. `lineage status --all` lists them."
        )


def _get_pair_sort_key(pair: tuple[ScoredCandidate, _IndexSearch]) -> tuple[bool, float]:
    return get_sort_key(pair[0])  # sorting is stable, and the searches have the order of the names


def _build_index_hints(search: _IndexSearch) -> Iterator[str]:
    status = search.open_search.status
    if status.verdict is None or not status.commits:
        yield describe_empty_index(status)
    else:
        yield from build_index_hints(status, uses_vectors=True)


def _format_error(error: LineageError) -> str:
    if isinstance(error, NotIndexed):
        return "It is not indexed yet: run `lineage index`."
    return f"{error.message} {error.hint}".strip()


def _list_texts(texts: dict[NamedRepository, str], others: str) -> Iterator[str]:
    """Yield the first MAX_LISTED texts, each after its repository's name, with the repository's path added to commands.

    `others`: format string of a last sentence about the other texts. `{count}` in it becomes their number.
    """
    for repository, text in islice(texts.items(), MAX_LISTED):
        yield f"{repository.name}: {add_path_to_commands(text, Path(repository.path))}"
    if len(texts) > MAX_LISTED:
        yield others.format(count=len(texts) - MAX_LISTED)
