"""Mining of training lists: a query, the change that answers it, and hard negatives.

python -m pipeline.training.mine_lists LISTS REPOSITORY... [--commits N] [--queries N] [--seed N] [--jobs N]

A REPOSITORY is a local clone, bare or not. The command writes a file for each to the directory LISTS, and skips
repositories that already have one. A change is the diff of one file in one commit. Hard negatives are changes of other
commits that rank high in the fusion of two lanes. A lane is the ranking of one retriever: BM25 over words, or cosines
of the static encoder's whitened vectors.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.encoders.base import load_tokenizer
from pipeline.encoders.static import StaticEncoder
from pipeline.text import count_terms
from pipeline.training.commit_sampling import (
    CommitText,
    MergeSample,
    RepositoryArgumentParser,
    map_repositories,
    read_commit_texts,
    sample_merges,
)
from stores.fulltext import K1, B, compute_inverse_document_frequency
from stores.vector_search import MESSAGE_WEIGHT
from stores.vectors import Whitening, fit_whitening

# Maximum number of commits to read and queries to mine per repository.
MAX_COMMITS: Final = 3_000
MAX_QUERIES: Final = 3_000
# Seed of the order of queries, independent of `--seed`.
SHUFFLE_SEED: Final = 7
# Maximum number of characters of a message that BM25 counts.
MAX_MESSAGE_CHARS: Final = 1_600
# Maximum number of characters of a message that are embedded: as many as an index embeds together with a change.
MAX_EMBEDDED_MESSAGE_CHARS: Final = 400
# Repositories with fewer sampled commits are skipped, because they have too few hard negatives.
MIN_COMMITS: Final = 200
# Minimum number of words of a changelog line without markup and issue numbers. Shorter lines are headings or names.
MIN_CHANGELOG_WORDS: Final = 5
# Maximum number of sentences of one message that become queries, so that long messages do not outweigh the others.
MAX_SENTENCES: Final = 2

# Number of changes of each lane, best first, that are fused.
LANE_DEPTH: Final = 80
# Constant of reciprocal rank fusion.
FUSION_K: Final = 60
# Number of hard negatives per list.
NEGATIVES: Final = 24

# Queries scored at a time, to limit memory.
QUERIES_PER_BATCH: Final = 200
# Maximum number of tokens that are stored of each text: more than training reads.
MAX_TOKENS: Final = {"query": 40, "rest": 64, "message": 64, "change": 128}

logger = logging.getLogger(__name__)

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


class QueryKind(IntEnum):
    """Kind of a query; it decides how much of the commit message a candidate may show."""

    SUBJECT = 0  # subject of a commit; the message is hidden
    SENTENCE = 1  # sentence of a message body; the rest of the message is shown
    CHANGELOG = 2  # line that the commit added to a changelog; the message is shown
    TITLE = 3  # title of the pull request that the commit belongs to; the message is shown


# Share of each kind in the queries of a repository; subjects fill the rest.
QUERY_KIND_SHARES: Final = {QueryKind.CHANGELOG: 0.2, QueryKind.SENTENCE: 0.3, QueryKind.TITLE: 0.15}


@dataclass(frozen=True, slots=True)
class MinedQuery:
    """Query, and the numbers of the commits that answer it.

    `rest`: for a sentence, the commit's message without this sentence; otherwise empty.
    """

    kind: QueryKind
    commits: tuple[int, ...]
    text: str
    rest: str = ""


@dataclass(frozen=True, slots=True)
class MiningTask:
    """Repository to mine, the file to write, limits and seed."""

    repository: Path
    file: Path
    max_commits: int
    max_queries: int
    seed: int


def mine_repository(task: MiningTask) -> str:
    """Mine one repository and write its lists, unless its file exists; return a line for the log."""
    if task.file.exists():
        return f"{task.file.stem}: already mined"
    commits = read_commit_texts(task.repository, task.max_commits, task.seed)
    if len(commits) < MIN_COMMITS:
        return f"{task.file.stem}: too few commits"
    merges = sample_merges(task.repository, task.seed, task.max_commits)
    queries = build_queries(commits, merges, task.max_queries)
    retriever = CandidateRetriever.from_commits(commits)
    candidate_lists = [*build_lists(queries, commits, retriever)]
    write_lists(task.file, queries, commits, retriever.commit_numbers, candidate_lists)
    return f"{task.file.stem}: {len(commits)} commits, {len(candidate_lists)} lists"


def build_queries(
    commits: Sequence[CommitText], merges: Iterable[MergeSample], max_queries: int
) -> list[MinedQuery]:
    """Return at most `max_queries` queries of a repository, sampled with SHUFFLE_SEED."""
    queries = [
        query for number, commit in enumerate(commits) for query in iter_commit_queries(number, commit)
    ]
    queries += iter_merge_queries(commits, merges)
    random.Random(SHUFFLE_SEED).shuffle(queries)  # noqa: S311 - a repeatable draw, nothing secret
    selected: list[MinedQuery] = []
    for kind, share in QUERY_KIND_SHARES.items():
        selected += [query for query in queries if query.kind is kind][: int(max_queries * share)]
    subjects = [query for query in queries if query.kind is QueryKind.SUBJECT]
    return selected + subjects[: max_queries - len(selected)]


def iter_commit_queries(number: int, commit: CommitText) -> Iterator[MinedQuery]:
    """Yield the queries that a commit answers: its subject, sentences of its body, its changelog line."""
    yield MinedQuery(QueryKind.SUBJECT, (number,), commit.subject)
    for sentence in commit.sentences[:MAX_SENTENCES]:
        if sentence in commit.message:
            yield MinedQuery(QueryKind.SENTENCE, (number,), sentence, commit.message.replace(sentence, ""))
    if len(commit.changelog_line.split()) >= MIN_CHANGELOG_WORDS:
        yield MinedQuery(QueryKind.CHANGELOG, (number,), commit.changelog_line)


def iter_merge_queries(commits: Sequence[CommitText], merges: Iterable[MergeSample]) -> Iterator[MinedQuery]:
    """Yield the titles of merges as queries, unless a merged commit has the title as its subject."""
    numbers = {commit.sha: number for number, commit in enumerate(commits)}
    for merge in merges:
        answers = tuple(numbers[sha] for sha in merge.commits if sha in numbers)
        subjects = {commits[number].subject.lower() for number in answers}
        if answers and merge.title.lower() not in subjects:
            yield MinedQuery(QueryKind.TITLE, answers, merge.title)


@dataclass(frozen=True, slots=True, eq=False)
class CandidateList:
    """Numbers of a query and of its changes: first the best answer, then the hard negatives, most similar first.

    `lane_scores`, of shape (changes, 2): the BM25 score as a share of the query's best score, and the cosine. If the
    query is a sentence, the answer's scores count that sentence too, so the training ignores the scores of such lists.
    """

    query_number: int
    changes: list[int]
    lane_scores: Floats


def build_lists(
    queries: Sequence[MinedQuery], commits: Sequence[CommitText], retriever: CandidateRetriever
) -> Iterator[CandidateList]:
    """Yield the candidate list of each query that has enough negatives."""
    subjects = [commit.subject.lower() for commit in commits]
    commit_numbers = retriever.commit_numbers
    for query_numbers, hides_message in _iter_query_batches(queries):
        texts = [queries[number].text for number in query_numbers]
        scores = retriever.score(texts, include_messages=not hides_message)
        for number, bm25_scores, cosines in zip(query_numbers, *scores, strict=True):
            answers = queries[number].commits
            negatives = _select_hard_negatives(answers, subjects, commit_numbers, (bm25_scores, cosines))
            if len(negatives) == NEGATIVES:
                bm25_shares = bm25_scores / max(float(bm25_scores.max()), 1e-6)
                answer_changes = np.flatnonzero(np.isin(commit_numbers, answers))
                best_index = np.argmax(bm25_shares[answer_changes] + cosines[answer_changes])
                changes = [int(answer_changes[best_index]), *negatives]
                lane_scores = np.stack([bm25_shares[changes], cosines[changes]], axis=1)
                yield CandidateList(number, changes, lane_scores)


def _iter_query_batches(queries: Sequence[MinedQuery]) -> Iterator[tuple[list[int], bool]]:
    """Yield the query numbers of each batch, and whether messages are hidden, as they are for subjects."""
    for hides_message in (True, False):
        numbers = [
            number
            for number, query in enumerate(queries)
            if (query.kind is QueryKind.SUBJECT) is hides_message
        ]
        for start in range(0, len(numbers), QUERIES_PER_BATCH):
            yield numbers[start : start + QUERIES_PER_BATCH], hides_message


def _select_hard_negatives(
    answers: Sequence[int], subjects: Sequence[str], commit_numbers: Ints, lanes: Iterable[Floats]
) -> list[int]:
    """Return at most NEGATIVES changes, the best by rank fusion of the lanes, and at most one of each commit.

    Skip the commits that answer the query, and commits with the subject of one of these. `answers`: numbers of the
    commits that answer. `lanes`: for each retriever, its scores of all changes.
    """
    answer_subjects = {subjects[answer] for answer in answers}
    fused_scores: dict[int, float] = {}
    for scores in lanes:
        top = np.argpartition(-scores, min(LANE_DEPTH, len(scores) - 1))[:LANE_DEPTH]
        top_changes = top[np.argsort(-scores[top])].tolist()
        for rank, change in enumerate(top_changes):
            fused_scores[change] = fused_scores.get(change, 0.0) + 1 / (FUSION_K + rank)
    best_by_commit: dict[int, int] = {}
    for change in sorted(fused_scores, key=lambda number: -fused_scores[number]):
        if subjects[commit_numbers[change]] not in answer_subjects:
            best_by_commit.setdefault(int(commit_numbers[change]), change)
    return list(best_by_commit.values())[:NEGATIVES]


def write_lists(
    file: Path,
    queries: Sequence[MinedQuery],
    commits: Sequence[CommitText],
    commit_numbers: Ints,
    candidate_lists: Sequence[CandidateList],
) -> None:
    """Write the lists, and the token ids of their texts, as arrays. `commit_numbers`: commit of each change.

    `X ends` has the end of each text in the array `X`. `kinds` has a value for each query, `commit` for each change.
    `query_numbers`, `lists` (numbers of the changes) and `lane_scores` have a row for each list.
    """
    texts = {
        "query": [query.text for query in queries],
        "rest": [query.rest for query in queries],
        "message": [commit.message for commit in commits],
        "change": [text for commit in commits for text in commit.changes],
    }
    tokenizer = load_tokenizer()
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    for name, strings in texts.items():
        ids = [
            encoding.ids[: MAX_TOKENS[name]]
            for encoding in tokenizer.encode_batch(strings, add_special_tokens=False)
        ]
        arrays[name] = np.array([token for row in ids for token in row], np.uint16)
        arrays[f"{name} ends"] = np.cumsum([len(row) for row in ids])
    arrays["kinds"] = np.array([query.kind for query in queries], np.uint8)
    arrays["commit"] = commit_numbers
    arrays["query_numbers"] = np.array([candidates.query_number for candidates in candidate_lists], np.int64)
    arrays["lists"] = np.array([candidates.changes for candidates in candidate_lists], np.int64).reshape(
        -1, NEGATIVES + 1
    )
    arrays["lane_scores"] = np.array(
        [candidates.lane_scores for candidates in candidate_lists], np.float16
    ).reshape(-1, NEGATIVES + 1, 2)
    partial_file = file.with_suffix(".npz.part")
    with partial_file.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)
    partial_file.replace(file)


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """BM25 index of texts.

    The texts with term number t are `text_numbers[starts[t]:starts[t + 1]]`. The same slice of `weights` has the weight
    of the term in each of them. `count`: number of texts.
    """

    starts: Ints
    text_numbers: Ints
    weights: Floats
    count: int

    @classmethod
    def from_bags(cls, bags: Sequence[Counter[str]], term_numbers: Mapping[str, int]) -> Postings:
        """Build the index of texts, each given as the counts of its terms. `term_numbers`: number of each term."""
        lengths = np.array([bag.total() for bag in bags], np.float64)
        length_norms = K1 * (1 - B + B * lengths / max(float(lengths.mean()), 1))
        text_numbers = np.repeat(np.arange(len(bags)), [len(bag) for bag in bags])
        terms = np.array([term_numbers[term] for bag in bags for term in bag], np.int64)
        counts = np.array([count for bag in bags for count in bag.values()], np.float64)
        text_counts = np.bincount(terms, minlength=len(term_numbers))
        weights = (
            compute_inverse_document_frequency(text_counts, len(bags))[terms]
            * counts
            * (K1 + 1)
            / (counts + length_norms[text_numbers])
        )
        order = np.argsort(terms, kind="stable")
        starts = np.concatenate(([0], np.cumsum(text_counts)))
        return cls(starts, text_numbers[order], weights[order].astype(np.float32), len(bags))

    def score(self, terms: Iterable[int]) -> Floats:
        """Return the BM25 score of every text for the query's term numbers."""
        scores = np.zeros(self.count, np.float32)
        for term in terms:
            postings = slice(self.starts[term], self.starts[term + 1])
            scores[self.text_numbers[postings]] += self.weights[postings]
        return scores


@dataclass(frozen=True, slots=True, eq=False)
class CandidateRetriever:
    """BM25 and vector retrieval over the changes of one repository.

    `commit_numbers[i]`: number of the commit of change i. `term_numbers`: number of each term in the postings.
    `without_messages`: postings of the changes alone. `with_messages`: postings of the changes with their commits'
    messages. `whitening`: transform of the vectors. `change_vectors`, `message_vectors`: whitened unit vectors of the
    changes and of the commits' messages.
    """

    commit_numbers: Ints
    term_numbers: Mapping[str, int]
    without_messages: Postings
    with_messages: Postings
    whitening: Whitening
    change_vectors: Floats
    message_vectors: Floats

    @classmethod
    def from_commits(cls, commit_texts: Sequence[CommitText]) -> CandidateRetriever:
        """Build the retriever of a repository's commits."""
        changes = [(number, text) for number, commit in enumerate(commit_texts) for text in commit.changes]
        message_bags = [count_terms(commit.message[:MAX_MESSAGE_CHARS]) for commit in commit_texts]
        change_bags = [count_terms(text) for _, text in changes]
        joint_bags = [
            bag + message_bags[number] for bag, (number, _) in zip(change_bags, changes, strict=True)
        ]
        term_numbers: dict[str, int] = {}
        for bag in joint_bags:
            for term in bag:
                term_numbers.setdefault(term, len(term_numbers))
        encoder = StaticEncoder()
        change_vectors = encoder.encode([text for _, text in changes])
        whitening = fit_whitening(change_vectors)
        message_vectors = encoder.encode(
            [commit.message[:MAX_EMBEDDED_MESSAGE_CHARS] for commit in commit_texts]
        )
        return cls(
            np.array([number for number, _ in changes], np.int64),
            term_numbers,
            Postings.from_bags(change_bags, term_numbers),
            Postings.from_bags(joint_bags, term_numbers),
            whitening,
            _whiten(whitening, change_vectors),
            _whiten(whitening, message_vectors),
        )

    def score(self, queries: Sequence[str], *, include_messages: bool) -> tuple[Floats, Floats]:
        """Return BM25 scores and cosines, each of shape (queries, changes).

        With `include_messages`, the message of a change's commit counts as well, as in an index.
        """
        postings = self.with_messages if include_messages else self.without_messages
        query_terms = [
            [self.term_numbers[term] for term in count_terms(text) if term in self.term_numbers]
            for text in queries
        ]
        bm25_scores = np.stack([postings.score(terms) for terms in query_terms])
        query_vectors = _whiten(self.whitening, StaticEncoder().encode(queries))
        cosines = query_vectors @ self.change_vectors.T
        if include_messages:
            message_cosines = (query_vectors @ self.message_vectors.T)[:, self.commit_numbers]
            weighted_cosines = (1 - MESSAGE_WEIGHT) * cosines + MESSAGE_WEIGHT * message_cosines
            cosines = np.maximum(cosines, weighted_cosines)
        return bm25_scores, cosines


def _whiten(whitening: Whitening, vectors: Floats) -> Floats:
    """Return the vectors whitened and normalized."""
    projected = whitening.transform(vectors.astype(np.float64))
    return np.asarray(
        projected / np.maximum(np.linalg.norm(projected, axis=1, keepdims=True), 1e-9), np.float32
    )


def main() -> None:
    """Run the command line."""
    parser = RepositoryArgumentParser("pipeline.training.mine_lists", __doc__, "LISTS", MAX_COMMITS)
    parser.add_argument(
        "--queries",
        type=int,
        default=MAX_QUERIES,
        metavar="N",
        help="maximum number of queries per repository",
    )
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    tasks = [
        MiningTask(
            path, arguments.directory / f"{name}.npz", arguments.commits, arguments.queries, arguments.seed
        )
        for name, path in parser.name_repositories(arguments.repositories).items()
    ]
    arguments.directory.mkdir(parents=True, exist_ok=True)
    for line in map_repositories(mine_repository, tasks, arguments.jobs):
        logger.info("%s", line)


if __name__ == "__main__":
    main()
