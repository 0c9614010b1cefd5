"""Features of candidates for the reranker, and the texts for the cross-encoder.

A candidate is a hunk: the diff of one file in one commit. Some features describe its commit and are the same for all
candidates of the commit. Every feature is absolute: 0.6 means the same for any query and any repository, so weights
learned on one repository hold for another. The weight of a term is its BM25 inverse document frequency over the texts
of the hunks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise
from operator import mul
from typing import Final

import numpy as np

from pipeline.encoders.cross_encoder import ChangeText
from pipeline.file_classification import classify_role, detect_language
from pipeline.options import EncoderName
from pipeline.text import (
    TermsByToken,
    build_semantic_text,
    find_compound_identifiers,
    find_surface_forms,
    list_part_stems,
    tokenize,
)
from serve.search.query import Query, RequestedChange
from serve.search.query_hints import FUNCTION_WORDS
from serve.search.retrieval import Candidate, RetrieverResults
from stores import vector_search
from stores.fulltext import K1, TermLookup, compute_inverse_document_frequency
from stores.hunk_details import Connection, HunkDetails, HunkDetailsCache, load_changed_files
from stores.snapshot import Bools, Floats, Hunks, Ints
from stores.vectors import Vectors

# Maximum number of matched words of each field in an answer. The rarest ones explain a hit best.
MAX_MATCHED_WORDS: Final = 5

# Minimum number of words of an informative message. "wip", "Change" and "." do not describe a change.
MIN_MESSAGE_WORDS: Final = 2

# Texts in a query that a hit should have literally, in the order of the columns of `CandidateFeatures.literal_matches`.
# The parent of a symbol is the class in `Class.method`.
LITERAL_HINTS: Final = ("path", "quoted symbol name", "quoted parent of the symbol")

# Fields of a candidate that can contain a term, in the order in which answers list them.
FIELDS: Final = ("message", "path", "symbols", "change")

# Features, in the order of the columns of `CandidateFeatures.matrix`.
FEATURES: Final = (
    "hunk similarity",  # cosine of the query and the hunk's text; rescaled by STATIC_SIMILARITY_SCALE for `static`
    "hunk similarity, whitened",  # the same after whitening, which removes what all texts of the index share
    "message similarity",  # cosine of the query and the commit message
    "BM25",  # BM25 score of the hunk, as a share of the highest possible score
    "matched words",  # weight of the query's content words that the hunk's text has, as a share of their total weight
    "matched words in subject",  # the same share for the first line of the message
    "matched word pairs in message",  # share of the query's pairs of adjacent content words that the message has, too
    "matched identifiers",  # weight of the query's compound identifiers in the text, divided by that total weight
    "matched words in path",  # weight of the query's content words in the path, divided by that total weight
    "similarity of other files",  # weighted sum of the whitened similarities of the commit's second and third best hunk
    "file of requested role",  # 1 if the commit changes source code, or a file of a role that the query names; else 0
    "subject as asked",  # 1 if the subject has a word for adding (query about an origin) or removing (removal); else 0
    "removed lines",  # share of removed lines in the commit's changed lines, for a query about a removal; else 0
)

# The cosines of the encoder `static` predict relevance less well. So its hunk similarity is this number times
# (1 + cosine). See "Encoder comparison" in tests/eval/README.md.
STATIC_SIMILARITY_SCALE: Final = 0.3
# Weights of the whitened similarities of the second and the third best hunk of a commit.
OTHER_HUNK_WEIGHTS: Final = (0.5, 0.25)
# Added to the number of changed lines, so that a commit that only removes one line has a small share of removed lines.
LINE_SMOOTHING: Final = 3

# A word for adding starts the subject, perhaps after a type such as `feat(api)!:`. A word for removing can be anywhere,
# also in a branch name such as `remove_windows`. Only inflections count, because "Address comments" adds nothing.
_SUBJECT_PATTERNS: Final = {
    RequestedChange.ORIGIN: re.compile(
        r"(?:[\w.-]+(?:\([^)]*\))?!?:\s*)?\W*(?:(?:add|allow|detect|implement|start|support)(?:s|ed|ing)?"
        r"|(?:creat|enabl|expos|introduc|provid)(?:e[sd]?|ing)|addition|creation|detection|implementation|introduction"
        r"|feat(?:ures?)?|first|initial|makes?|new|wip)\b",
        re.IGNORECASE,
    ),
    RequestedChange.REMOVAL: re.compile(
        r".*?\b(?:(?:delet|deprecat|discontinu|eliminat|nuk|obsolet|purg|remov|replac)(?:e[sd]?|ing)"
        r"|(?:delet|deprecat|eliminat|simplificat)ions?|removals?|replacements?|simplif(?:y|ies|ied|ying)"
        r"|(?:drop|stop|strip)(?:s|ped|ping)?|(?:kill|revert)(?:s|ed|ing)?|clean(?:ed|s|ing)?[ -]?ups?|bye|dead code"
        r"|get rid|instead of|no longer|redundant|rid of|superfluous|unnecessary|unneeded|unused|without)(?![^\W_])",
        re.IGNORECASE,
    ),
}

# Number of commits that the cross-encoder reads for a query. Reading 16 did not improve the order.
CROSS_ENCODER_COMMITS: Final = 8


@dataclass(frozen=True, slots=True, eq=False)
class QueryTerms:
    """Terms of a query that the index has. The first five fields have an element for each term, in the same order.

    `typed_words`: each term as the user wrote it. `is_content`: False for function words. `is_identifier`: True for
    compound identifiers. `total_weight`: weight of all content terms. `max_bm25`: highest possible BM25 score; both
    numbers include terms that the index lacks. `word_pairs`: pairs of adjacent content terms.
    """

    terms: tuple[str, ...]
    typed_words: tuple[str, ...]
    weights: Floats
    is_content: Bools
    is_identifier: Bools
    total_weight: float
    max_bm25: float
    word_pairs: frozenset[tuple[str, str]]

    @classmethod
    def from_query(cls, query: Query, lookup: TermLookup, document_count: int) -> QueryTerms:
        """Weight the terms of a query. A term that the index lacks has the highest possible weight."""
        weights = compute_inverse_document_frequency(lookup.text_scores.document_frequencies, document_count)
        unknown_terms = [term for term in query.terms if term not in lookup.terms]
        max_weight = float(compute_inverse_document_frequency(np.zeros(1, np.int64), document_count)[0])
        is_content = np.array([term not in FUNCTION_WORDS for term in lookup.terms], np.bool_)
        identifiers, surface_forms = find_compound_identifiers(query.text), find_surface_forms(query.text)
        unknown_content_weight = max_weight * sum(term not in FUNCTION_WORDS for term in unknown_terms)
        content_weight = float(weights[is_content].sum()) + unknown_content_weight
        summed_weight = float(weights.sum()) + max_weight * len(unknown_terms)
        # Both totals are divisors, so a query without terms gets 1 instead of 0.
        return cls(
            terms=lookup.terms,
            typed_words=tuple(surface_forms.get(term, term) for term in lookup.terms),
            weights=weights,
            is_content=is_content,
            is_identifier=np.array([term in identifiers for term in lookup.terms], np.bool_),
            total_weight=content_weight or 1.0,
            max_bm25=(summed_weight * (K1 + 1)) or 1.0,
            word_pairs=frozenset(_iter_content_pairs(list_part_stems(tokenize(query.text)))),
        )

    def count_terms(self, texts: Sequence[TermsByToken]) -> Ints:
        """Return how often each term (columns) occurs in each text (rows)."""
        column_by_term = {term: column for column, term in enumerate(self.terms)}
        counts = np.zeros((len(texts), len(self.terms)), np.int64)
        for row, text in zip(counts, texts, strict=True):
            for term in chain.from_iterable(text):
                if term in column_by_term:
                    row[column_by_term[term]] += 1
        return counts

    def compute_pair_share(self, text: TermsByToken) -> float:
        """Return the share of the query's word pairs that the text contains."""
        if not self.word_pairs:
            return 0.0
        return len(self.word_pairs.intersection(pairwise(list_part_stems(text)))) / len(self.word_pairs)

    def compute_weight_share(self, counts: Ints, mask: Bools) -> Floats:
        """Return, for each row of counts, the weight of the masked terms that occur, as a share of `total_weight`."""
        return np.asarray((counts > 0) @ (self.weights * mask) / self.total_weight)

    def list_matched_words(self, counts: Ints) -> tuple[str, ...]:
        """Return the content terms that occur, as the user typed them, the rarest first; ties in alphabetical order."""
        present_columns = np.flatnonzero((counts > 0) & self.is_content)
        sorted_columns = sorted(
            present_columns, key=lambda column: (-self.weights[column], self.terms[column])
        )
        return tuple(dict.fromkeys(self.typed_words[column] for column in sorted_columns))


@dataclass(frozen=True, slots=True, eq=False)
class MatchedTerms:
    """Counts of the query's terms (columns) in each field of a candidate (rows, as in `FIELDS`).

    The count of a term in the field "change" is its count in the full text of the hunk, less its counts in the other
    fields. Of a very long message only the beginning is loaded, so terms in the rest count for "change".
    """

    query_terms: QueryTerms
    counts: Ints

    def compute_share_outside_message(self) -> float:
        """Return the weight of the content terms in path, symbols or change, as a share of `total_weight`."""
        counts = self.counts[FIELDS.index("path") :].max(axis=0, keepdims=True)
        return float(self.query_terms.compute_weight_share(counts, self.query_terms.is_content)[0])

    def __str__(self) -> str:
        """Return the matched words as typed, by field, the rarest first."""
        words_by_field = zip(FIELDS, map(self.query_terms.list_matched_words, self.counts), strict=True)
        matches = [
            f"{field}: {', '.join(words[:MAX_MATCHED_WORDS])}" for field, words in words_by_field if words
        ]
        return "; ".join(matches) or "near in meaning; none of the question's words"


@dataclass(frozen=True, slots=True, eq=False)
class RerankInputs:
    """Input of the cross-encoder: the question, and a function that loads changes by the indices of candidates."""

    question: str
    load_changes: Callable[[Sequence[int]], list[ChangeText]]


@dataclass(frozen=True, slots=True, eq=False)
class CandidateFeatures:
    """Features of candidates. Each field but the last two has an element or row for each candidate.

    The columns of `matrix` are `FEATURES`. `commits` has the sha of the commit. A message is informative if it has
    MIN_MESSAGE_WORDS words. The columns of `literal_matches` are `LITERAL_HINTS`. `is_question`: as in `Query`.
    """

    matrix: Floats
    commits: tuple[str, ...]
    matched_terms: tuple[MatchedTerms, ...]
    has_informative_message: Bools
    literal_matches: Bools
    rerank_inputs: RerankInputs
    is_question: bool

    def select(self, indices: Sequence[int]) -> CandidateFeatures:
        """Return the features of the candidates at these indices."""

        def load_changes(selected_indices: Sequence[int]) -> list[ChangeText]:
            return self.rerank_inputs.load_changes([indices[index] for index in selected_indices])

        return CandidateFeatures(
            self.matrix[indices],
            tuple(self.commits[index] for index in indices),
            tuple(self.matched_terms[index] for index in indices),
            self.has_informative_message[indices],
            self.literal_matches[indices],
            replace(self.rerank_inputs, load_changes=load_changes),
            self.is_question,
        )

    @classmethod
    def concatenate(cls, groups: Sequence[CandidateFeatures]) -> CandidateFeatures:
        """Join the features of several groups of candidates, one group for each index. All have the same question."""
        starts = list(accumulate((len(group.commits) for group in groups), initial=0))

        def load_changes(indices: Sequence[int]) -> list[ChangeText]:
            changes: dict[int, ChangeText] = {}
            for group, start, end in zip(groups, starts, starts[1:], strict=False):
                if group_indices := [index for index in indices if start <= index < end]:
                    loaded = group.rerank_inputs.load_changes([index - start for index in group_indices])
                    changes |= zip(group_indices, loaded, strict=True)
            return [changes[index] for index in indices]

        return cls(
            np.concatenate([group.matrix for group in groups]),
            tuple(chain.from_iterable(group.commits for group in groups)),
            tuple(chain.from_iterable(group.matched_terms for group in groups)),
            np.concatenate([group.has_informative_message for group in groups]),
            np.concatenate([group.literal_matches for group in groups]),
            RerankInputs(groups[0].rerank_inputs.question, load_changes),
            groups[0].is_question,
        )


def compute_features(
    connection: Connection, query: Query, results: RetrieverResults, candidates: Sequence[Candidate]
) -> CandidateFeatures:
    """Compute the features of every candidate."""
    hunks, term_lookup = results.loaded_snapshot.snapshot.hunks, results.term_lookup
    query_terms = QueryTerms.from_query(query, term_lookup, int(np.count_nonzero(hunks.word_counts)))
    hunk_ids = np.array([candidate.hunk_id for candidate in candidates], np.int64)
    positions = hunks.positions.find_positions(hunk_ids)

    messages, message_similarities = _load_messages(results, candidates)
    subjects = [message.partition("\n")[0] for message in messages]
    bodies = [message.partition("\n")[2] for message in messages]
    terms_by_text = {text: tokenize(text) for text in {*subjects, *bodies}}  # many candidates share a commit
    subject_terms = [terms_by_text[subject] for subject in subjects]
    body_terms = [terms_by_text[body] for body in bodies]
    message_terms = [subject + body for subject, body in zip(subject_terms, body_terms, strict=True)]

    all_counts = term_lookup.text_scores.postings.count_terms(positions)
    symbol_counts = term_lookup.name_postings.count_terms(positions)
    subject_counts = query_terms.count_terms(subject_terms)
    path_counts = query_terms.count_terms(_tokenize_paths(hunks, positions))
    message_counts = subject_counts + query_terms.count_terms(body_terms)
    change_counts = all_counts - message_counts - path_counts - symbol_counts
    counts_by_field = np.stack((message_counts, path_counts, symbol_counts, change_counts), axis=1)

    matrix = np.column_stack(
        (
            *_compute_hunk_similarities(results, candidates),
            message_similarities,
            term_lookup.text_scores.scores[positions] / query_terms.max_bm25,
            query_terms.compute_weight_share(all_counts, query_terms.is_content),
            query_terms.compute_weight_share(subject_counts, query_terms.is_content),
            [query_terms.compute_pair_share(terms) for terms in message_terms],
            query_terms.compute_weight_share(all_counts, query_terms.is_identifier),
            query_terms.compute_weight_share(path_counts, query_terms.is_content),
            *_compute_commit_features(connection, query, results, candidates, subjects),
        )
    )
    return CandidateFeatures(
        matrix=matrix,
        commits=tuple(candidate.commit_sha for candidate in candidates),
        matched_terms=tuple(MatchedTerms(query_terms, counts) for counts in counts_by_field),
        has_informative_message=np.array([len(terms) >= MIN_MESSAGE_WORDS for terms in message_terms], bool),
        literal_matches=_match_literal_hints(results)[positions],
        rerank_inputs=build_rerank_inputs(query.text, results.details, candidates),
        is_question=query.is_question,
    )


def build_rerank_inputs(
    question: str, details: HunkDetailsCache, candidates: Sequence[Candidate]
) -> RerankInputs:
    """Prepare the input of the cross-encoder. The hunks of the candidates are loaded when `load_changes` is called."""

    def load_changes(indices: Sequence[int]) -> list[ChangeText]:
        return [*map(build_change, details.load([candidates[index].hunk_id for index in indices]))]

    return RerankInputs(question, load_changes)


def build_change(details: HunkDetails) -> ChangeText:
    """Build the text of a hunk for the cross-encoder: the commit message, and path, symbols and lines of the diff."""
    lines = details.diff.split("\n")
    # Instead of a diff, a clean merge has a list of indented paths.
    added_sign = "+" if details.file_path else " "
    text = build_semantic_text(
        message="",
        path=details.file_path,
        language=detect_language(details.file_path),
        symbols=details.symbols,
        change_kind=details.change_kind,
        added="\n".join(line[1:] for line in lines if line.startswith(added_sign)),
        removed="\n".join(line[1:] for line in lines if line.startswith("-")),
    )
    return ChangeText(details.commit_message, text)


def _match_literal_hints(results: RetrieverResults) -> Bools:
    """Return a mask of the query's LITERAL_HINTS (columns) that each hunk of the snapshot (rows) has."""
    is_named_path, symbol_parts = results.filter_mask.is_preferred, results.quoted_symbol_parts
    return np.column_stack((is_named_path, symbol_parts >= 1, symbol_parts == 2))


def _load_messages(results: RetrieverResults, candidates: Sequence[Candidate]) -> tuple[list[str], Floats]:
    """Return each candidate's commit message and its similarity to the query."""
    messages, shas = results.messages, [candidate.commit_sha for candidate in candidates]
    vectors = messages.get_vectors(shas)
    similarities = vector_search.compute_cosine_similarities(vectors, results.query_vector)
    return messages.get_messages(shas), _impute_missing(similarities, vectors)


def _compute_hunk_similarities(
    results: RetrieverResults, candidates: Sequence[Candidate]
) -> tuple[Floats, Floats]:
    """Return the similarity of each candidate's text to the query, plain and whitened."""
    snapshot, text_vectors = results.loaded_snapshot.snapshot, results.loaded_snapshot.text_vectors
    hunk_ids = [candidate.hunk_id for candidate in candidates]
    vectors = vector_search.get_hunk_vectors(snapshot, text_vectors, hunk_ids)
    similarities = vector_search.compute_cosine_similarities(vectors, results.query_vector)
    if results.loaded_snapshot.encoder_name is EncoderName.STATIC:
        similarities = np.where(vectors.any(axis=1), STATIC_SIMILARITY_SCALE * (1 + similarities), 0.0)
    positions = snapshot.hunks.positions.find_positions(np.array(hunk_ids, np.int64))
    whitened_similarities = _compute_whitened_similarities(results, positions)
    return _impute_missing(similarities, vectors), _impute_missing(whitened_similarities, vectors)


def _compute_whitened_similarities(results: RetrieverResults, positions: Ints) -> Floats:
    """Return the whitened similarity of the hunks at these positions to the query; 0 for a text without a vector."""
    text_vectors = results.loaded_snapshot.text_vectors
    rows = text_vectors.rows[positions]
    has_vector = rows >= 0
    similarities = np.zeros(len(rows))
    similarities[has_vector] = text_vectors.compute_scores(results.whitened_query, rows[has_vector])
    return np.round(similarities, vector_search.COSINE_DECIMALS)


def _compute_commit_features(
    connection: Connection,
    query: Query,
    results: RetrieverResults,
    candidates: Sequence[Candidate],
    subjects: Sequence[str],
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the last four of FEATURES, which describe a commit. `subjects`: subject of each candidate's commit."""
    shas = [candidate.commit_sha for candidate in candidates]
    similarities, has_requested_role = _compute_file_features(query, results, frozenset(shas))
    pattern = _SUBJECT_PATTERNS[query.requested_change] if query.requested_change else None
    is_as_asked = [pattern is not None and pattern.match(subject) is not None for subject in subjects]
    is_removal = query.requested_change is RequestedChange.REMOVAL
    removed_shares = _compute_removed_shares(connection, frozenset(shas)) if is_removal else {}
    return (
        np.array([similarities[sha] for sha in shas]),
        np.array([has_requested_role[sha] for sha in shas], np.float64),
        np.array(is_as_asked, np.float64),
        np.array([removed_shares.get(sha, 0.0) for sha in shas]),
    )


def _compute_file_features(
    query: Query, results: RetrieverResults, commits: frozenset[str]
) -> tuple[dict[str, float], dict[str, bool]]:
    """Return the features "similarity of other files" and "file of requested role" of each commit.

    Only the commit's hunks that pass the filters count.
    """
    hunks = results.loaded_snapshot.snapshot.hunks
    positions = np.flatnonzero(hunks.mask_hunks_by_commit(commits) & results.filter_mask.is_included)
    commit_info = hunks.commit_info.take(positions)
    shas, paths = (commit_info.column(name).to_pylist() for name in ("commit_sha", "file_path"))
    scores = np.maximum(_compute_whitened_similarities(results, positions), 0).tolist()
    requested_roles = query.roles | {"source"}
    scores_by_commit: dict[str, list[float]] = {sha: [] for sha in commits}
    has_requested_role = dict.fromkeys(commits, False)
    for sha, path, score in zip(shas, paths, scores, strict=True):
        scores_by_commit[sha].append(score)
        if path and classify_role(path) in requested_roles:
            has_requested_role[sha] = True
    similarities = {
        sha: sum(map(mul, sorted(commit_scores, reverse=True)[1:], OTHER_HUNK_WEIGHTS))
        for sha, commit_scores in scores_by_commit.items()
    }
    return similarities, has_requested_role


def _compute_removed_shares(connection: Connection, commits: frozenset[str]) -> dict[str, float]:
    """Return each commit's share of removed lines among its changed lines. Tests and prose do not count."""
    shares = {}
    for sha, files in load_changed_files(connection, commits).items():
        program_files = [file for file in files if classify_role(file.file_path) in ("source", "other")]
        added = sum(file.added_lines for file in program_files)
        removed = sum(file.removed_lines for file in program_files)
        shares[sha] = removed / (added + removed + LINE_SMOOTHING)
    return shares


def _impute_missing(similarities: Floats, vectors: Vectors) -> Floats:
    """Give texts that have no vector yet (rows of zeros) the mean similarity of the others, so that words decide."""
    has_vector = vectors.any(axis=1)
    if has_vector.all() or not has_vector.any():
        return similarities
    return np.where(has_vector, similarities, similarities[has_vector].mean())


def _iter_content_pairs(terms: Sequence[str]) -> Iterator[tuple[str, str]]:
    for first, second in pairwise(terms):
        if first not in FUNCTION_WORDS and second not in FUNCTION_WORDS:
            yield first, second


def _tokenize_paths(hunks: Hunks, positions: Ints) -> list[TermsByToken]:
    return [tokenize(path) for path in hunks.commit_info.column("file_path").take(positions).to_pylist()]
