"""Evaluation protocols: the queries of each, their judgments, and the content of the index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.git.repository import open_repository
from pipeline.ignore import IgnoreRules
from tests.eval import changelog, judgments, message_queries
from tests.eval.commits import Commit, DuplicateGroups, read_commits, read_patch_ids
from tests.eval.histories import EvaluationCopy, Variant
from tests.eval.judgments import JudgedQuery


@dataclass(frozen=True, slots=True)
class Sample:
    """Maximum number of queries to draw, and the seed of the draw."""

    size: int
    seed: int


@dataclass(frozen=True, slots=True)
class QuerySource:
    """Evaluation copy, the commits of its original repository, oldest first, and their near-duplicates."""

    copy: EvaluationCopy
    commits: Sequence[Commit]
    duplicates: DuplicateGroups

    @classmethod
    def from_evaluation_copy(cls, copy: EvaluationCopy) -> QuerySource:
        """Read the commits of the original repository."""
        commits = tuple(read_commits(copy.original_path))
        return cls(copy, commits, DuplicateGroups.from_commits(commits, read_patch_ids(copy.original_path)))

    def create_sha_mapper(self) -> Callable[[str], str]:
        """Return a function that maps the sha of an indexed commit to an original sha.

        All near-duplicates of a commit map to the same sha.
        """
        original_shas = {indexed: original for original, indexed in self.copy.indexed_shas.items()}
        return lambda sha: self.duplicates.get_canonical_sha(original_shas.get(sha, sha))

    def select_commits(self) -> list[Commit]:
        """Return the commits that can serve as an answer."""
        is_ignored = IgnoreRules.from_repository(open_repository(self.copy.indexed_path)).is_ignored
        return message_queries.select_commits(
            self.commits, self.duplicates, lambda path: not is_ignored(path)
        )


@dataclass(frozen=True, slots=True)
class Protocol:
    """Evaluation protocol: the content of the index and the source of the queries.

    `variant`: content of the index. `create_queries` returns queries whose judgments have original shas. `find_head`
    returns the revision of a clone up to which it is indexed. `is_graded`: judgments have grades from 1 to 3, not only
    "relevant".
    """

    variant: Variant
    create_queries: Callable[[QuerySource, Sample], Sequence[JudgedQuery]]
    find_head: Callable[[Path], str] = lambda _: "HEAD"
    is_graded: bool = False

    @property
    def has_messages(self) -> bool:
        """Whether the index contains commit messages."""
        return self.variant is not Variant.NO_MESSAGES


def create_changelog_queries(source: QuerySource, _: Sample) -> Sequence[JudgedQuery]:
    """Return the texts of all news fragments with the commits that added them."""
    return changelog.create_queries(source.copy.original_path)


def create_subject_queries(source: QuerySource, sample: Sample) -> Sequence[JudgedQuery]:
    """Return a sample of subjects with their commits."""
    queries = [
        JudgedQuery.with_relevant(changelog.strip_issue_numbers(commit.subject), [commit.sha])
        for commit in source.select_commits()
        if not message_queries.mentions_file(commit.subject, commit.paths)
    ]
    return message_queries.draw_sample(queries, sample.size, sample.seed)


def create_body_queries(source: QuerySource, sample: Sample) -> Sequence[JudgedQuery]:
    """Return a sample of sentences from message bodies with the commits that contain them."""
    relevant: dict[str, set[str]] = {}
    for commit in source.select_commits():
        sentence = message_queries.find_body_sentence(commit.subject, commit.body)
        if sentence:
            relevant.setdefault(sentence, set()).add(commit.sha)
    queries = [JudgedQuery.with_relevant(text, shas) for text, shas in relevant.items()]
    return message_queries.draw_sample(queries, sample.size, sample.seed)


def create_keyword_queries(source: QuerySource, sample: Sample) -> Sequence[JudgedQuery]:
    """Return a sample of words of subjects with their commits."""
    commits = message_queries.draw_sample(source.select_commits(), sample.size, sample.seed)
    shas = {commit.sha for commit in commits}
    return [
        JudgedQuery.with_relevant(text, [commit.sha])
        for text, commit in message_queries.select_keywords(source.commits, sample.seed)
        if commit.sha in shas
    ]


def load_handwritten_queries(
    source: QuerySource, _: Sample, folder: Path | None = None
) -> Sequence[JudgedQuery]:
    """Return all queries of the repository's query sheet (see `judgments`); none if it has no sheet."""
    sheet = judgments.find_sheet(source.copy.original_path, folder)
    return [handwritten.query for handwritten in sheet.questions] if sheet else []


def load_development_queries(source: QuerySource, sample: Sample) -> Sequence[JudgedQuery]:
    """Return the queries that tuning may look at: two of three of the repository's sheet for development."""
    queries = load_handwritten_queries(source, sample, judgments.DEVELOPMENT_FOLDER)
    return [query for number, query in enumerate(queries, 1) if number % judgments.HELD_OUT_STEP]


def load_held_out_queries(source: QuerySource, sample: Sample) -> Sequence[JudgedQuery]:
    """Return the other third of the queries for development."""
    queries = load_handwritten_queries(source, sample, judgments.DEVELOPMENT_FOLDER)
    return queries[judgments.HELD_OUT_STEP - 1 :: judgments.HELD_OUT_STEP]


def find_development_head(clone: Path) -> str:
    """Return the commit at which the queries for development were judged, or "HEAD" without a sheet."""
    return find_judged_head(clone, judgments.DEVELOPMENT_FOLDER)


def find_judged_head(clone: Path, folder: Path | None = None) -> str:
    """Return the commit at which the queries of the repository's sheet were judged, or "HEAD" without a sheet."""
    sheet = judgments.find_sheet(clone, folder)
    return sheet.head if sheet else "HEAD"


PROTOCOLS: Final = {
    "changelog": Protocol(Variant.NO_CHANGELOGS, create_changelog_queries),
    "scrubbed": Protocol(Variant.NO_MESSAGES, create_subject_queries),
    "body": Protocol(Variant.WHOLE, create_body_queries),
    "keywords": Protocol(Variant.WHOLE, create_keyword_queries),
    "questions": Protocol(Variant.WHOLE, load_handwritten_queries, find_judged_head, is_graded=True),
    "development": Protocol(Variant.WHOLE, load_development_queries, find_development_head, is_graded=True),
    "held-out": Protocol(Variant.WHOLE, load_held_out_queries, find_development_head, is_graded=True),
}
