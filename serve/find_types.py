"""Request and answer of `find_pattern`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from serve.api_types import (
    MAX_FILTER_LENGTH,
    MAX_QUERY_LENGTH,
    Answer,
    AnswerMeta,
    Release,
    validate_text,
)
from serve.references import Reference


@dataclass(frozen=True, slots=True)
class FindRequest:
    """Request for commits that match a text, to answer "how was it done before?"

    - `text`: the question, or words or code of the change.
    - `k`: maximum number of commits.
    - `since`, `until`: dates or ages as the user typed them, such as `2024-01-31` or `30d`.
    - `path`: gitignore pattern. `author`: part of the author's name or e-mail address.
    - `commit_range`: range of commits in git's syntax.
    - `rerank`: True to order the candidates by the reranker, False to keep the order of rank fusion.
    """

    text: str
    k: int = 5
    language: str | None = None
    since: str | None = None
    path: str | None = None
    author: str | None = None
    rerank: bool = True
    until: str | None = None
    commit_range: str | None = None

    def __post_init__(self) -> None:
        """Raise BadRequest for texts that are too long for the daemon, or that have no UTF-8 form."""
        validate_text("query", self.text, MAX_QUERY_LENGTH)
        filters = {
            "language": self.language,
            "since": self.since,
            "until": self.until,
            "path": self.path,
            "author": self.author,
            "range": self.commit_range,
        }
        for name, value in filters.items():
            validate_text(f"{name} filter", value or "", MAX_FILTER_LENGTH)


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """File that a commit changes, with the numbers of added and removed lines."""

    path: str
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class PatternHit:
    """Commit that matches a query, shown by its best hunk, preferably one of source code.

    - `author_date`: time of the original change. None if it is on the day of the commit date, as for most commits.
    - `file_path`: path of the file; empty for a commit that changes no file itself (an empty commit or a clean merge).
    - `change_kind`: `added`, `modified`, `deleted`, `renamed`, `mode_changed` or `type_changed`; without a file,
      `merged` for a merge and `empty` for any other commit.
    - `diff_excerpt`: diff of the hunk. A long diff is cut to the lines with most of the query's words, below a `…` if
      lines above them are omitted. A merge without a file has a list of the files that differ from its first parent.
      None if the diff was left out to shorten the answer.
    - `diff_truncated`: True if the excerpt is not the whole diff.
    - `related_head_symbols`: names of the first symbols that the hunk touches. HEAD need not have them.
    - `similarity`: cosine similarity of the vectors of the query and of the hunk's text.
    - `recency_weight`: share by which the recency of the commit raises its score.
    - `combined_score`: score that orders the hits, after those of an issue or pull request that the query names. With
      reranking, the score is the probability that the commit answers the query, raised if the commit is recent, or has
      a path or quoted name of the query. Without reranking, it is the score of rank fusion.
    - `matched`: the query's words that the commit contains, by field (message, path, ...). None without reranking.
    - `weak`: True if the hit is probably no answer. None if this is unknown: without reranking, or if the
      probability is low, but the commit has no informative message.
    - `repository`: name of the repository. None if the search was for a single repository, given by its path.
    - `references`: references in the message (see `serve.references`), and the pull request whose merge brought the
      commit to HEAD's branch.
    - `release`: first tag that contains the commit; None if there is none.
    - `also`: other reachable commits with the same change, such as backports.
    - `reverted_by`: newest reachable commit that reverts the commit and is not reverted itself; None if there is none.
    - `files`: some indexed files of the commit, beginning with `file_path`. `file_count`: number of all its indexed
      files.
    - `changelog`: first entries that the commit adds to the changelog and that say more than its message.
    """

    commit_sha: str
    commit_message: str
    commit_author: str
    commit_date: str
    file_path: str
    change_kind: str
    diff_excerpt: str | None
    diff_truncated: bool
    related_head_symbols: tuple[str, ...]
    similarity: float
    recency_weight: float
    combined_score: float
    matched: str | None = None
    weak: bool | None = None
    repository: str | None = None
    author_date: str | None = None
    files: tuple[ChangedFile, ...] = ()
    file_count: int = 0
    references: tuple[Reference, ...] = ()
    release: Release | None = None
    also: tuple[str, ...] = ()
    reverted_by: str | None = None
    changelog: tuple[str, ...] = ()
    provenance: Literal["INFERRED"] = "INFERRED"


# If a query profile does not change the search, its explanation ends with this text.
DEFAULT_RETRIEVAL: Final = "default lanes and weights"
# Labels of the last parts of an explanation. They are about the hints in the query: filters, names and languages.
HINTS_LABEL: Final = "read from the query"
ABSENT_LANGUAGES_LABEL: Final = "no file of the history is in"
_HINTS: Final = re.compile(rf"(?:{HINTS_LABEL}|{ABSENT_LANGUAGES_LABEL}): .*")


@dataclass(frozen=True, slots=True)
class QueryProfile:
    """Intent of a query (`name`), and `explanation` of how the intent and the hints in the query changed the search."""

    name: str
    explanation: str

    @property
    def changes_search(self) -> bool:
        """True if the intent or the hints changed the search."""
        return not self.explanation.endswith(DEFAULT_RETRIEVAL)

    @property
    def hints(self) -> str:
        """End of the explanation, about the hints in the query; empty if the query has no hints."""
        match = _HINTS.search(self.explanation)
        return match.group() if match else ""


# Profile of a query without cue words or hints.
DEFAULT_QUERY_PROFILE: Final = QueryProfile("Unknown", f"no cue words; {DEFAULT_RETRIEVAL}")


@dataclass(frozen=True, slots=True)
class FindMeta(AnswerMeta):
    """Index status and hints of an answer, and how the query was understood."""

    query_profile: QueryProfile


@dataclass(frozen=True, slots=True)
class FindAnswer(Answer):
    """Answer of `find_pattern`."""

    hits: tuple[PatternHit, ...]
    meta: FindMeta

    hit_type = PatternHit
