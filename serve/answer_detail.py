"""Detail of an answer: how much of messages and diffs it contains, and how many tokens it may cost.

An agent pays for each token that it reads. `Detail.NORMAL` keeps the first hit of a search whole and reduces the others
to subject, three files and two changed lines. In an explanation it keeps 400 characters of all messages (subjects
count, but are never cut), four changed lines of each commit and two leads.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final, TypeVar

from serve.diff_excerpts import select_changed_lines
from serve.explain_types import EvolutionLead, ExplainAnswer, ExplainHit
from serve.find_types import FindAnswer, PatternHit


class Detail(StrEnum):
    """Amount of text of each hit: subjects without diffs, the most relevant lines, or everything."""

    COMPACT = "compact"
    NORMAL = "normal"
    FULL = "full"


# Files and changed lines of a hit that is not shown in full.
MAX_FILES: Final = 3
MAX_CHANGED_LINES: Final = 2
# Changed lines of each commit of an explanation, where the message matters more than the diff.
MAX_EXPLAINED_LINES: Final = 4
# Characters of all messages of an explanation together, besides their subjects: the message answers "why?".
MAX_MESSAGE_CHARS: Final = 400
# Guesses about earlier commits in an explanation: the first one of each line before further ones.
MAX_LEADS: Final = 2
# Diffs have about 3.2 characters a token in the vocabularies of current models; 3.0 leaves a margin.
CHARS_PER_TOKEN: Final = 3.0

AnswerType = TypeVar("AnswerType", FindAnswer, ExplainAnswer)


def reduce_find_answer(answer: FindAnswer, detail: Detail, terms: Collection[str]) -> FindAnswer:
    """Reduce the hits of a search to this detail. `terms`: words of the query, which choose the lines that stay."""
    if detail is Detail.FULL:
        return answer
    hits = tuple(
        hit if number == 0 and detail is Detail.NORMAL else _reduce_pattern_hit(hit, detail, terms)
        for number, hit in enumerate(answer.hits)
    )
    return replace(answer, hits=hits)


def reduce_explain_answer(answer: ExplainAnswer, detail: Detail) -> ExplainAnswer:
    """Reduce the hits of an explanation to this detail."""
    if detail is Detail.FULL:
        return answer
    texts_by_commit: dict[str | None, set[str]] = defaultdict(set)
    for line in answer.lines:
        texts_by_commit[line.commit_sha].add(line.text)
    remaining_chars = 0 if detail is Detail.COMPACT else MAX_MESSAGE_CHARS
    hits = []
    for hit in answer.hits:
        message = _cut_message(hit.commit_message, remaining_chars)
        remaining_chars = max(0, remaining_chars - len(message))
        hits.append(_reduce_explain_hit(hit, message, detail, texts_by_commit[hit.commit_sha]))
    explain = replace(answer.meta.explain, leads=_select_leads(answer.meta.explain.leads))
    return replace(answer, hits=tuple(hits), meta=replace(answer.meta, explain=explain))


def limit_tokens(
    answer: AnswerType, max_tokens: int | None, render: Callable[[AnswerType], str]
) -> AnswerType:
    """Remove diffs, then hits, the last one first, until the rendered answer has at most about `max_tokens` tokens.

    The first hit is never removed; its diff is the last diff to go. Without a limit the answer stays as it is.
    """
    while max_tokens is not None and len(render(answer)) > max_tokens * CHARS_PER_TOKEN:
        shortened = _remove_last_diff(answer) or _remove_last_hit(answer)
        if shortened is None:
            break
        answer = shortened
    return answer


def parse_content_words(query: str) -> frozenset[str]:
    """Return the stemmed words of a query without function words, for `reduce_find_answer`."""
    # Imported here, because servers and commands start without the stemmer.
    from pipeline.text import count_terms
    from serve.search.query_hints import extract_content_words

    return extract_content_words(count_terms(query))


def get_subject(message: str) -> str:
    """Return the first line of a commit message."""
    return message.strip().partition("\n")[0].rstrip()


def _reduce_pattern_hit(hit: PatternHit, detail: Detail, terms: Collection[str]) -> PatternHit:
    excerpt = None
    if detail is Detail.NORMAL and hit.diff_excerpt is not None:
        from pipeline.text import count_terms  # imported here, because explanations need no stemmer

        wanted = frozenset(terms)
        excerpt = select_changed_lines(
            hit.diff_excerpt, lambda line: len(wanted.intersection(count_terms(line))), MAX_CHANGED_LINES
        )
    return replace(
        hit,
        commit_message=get_subject(hit.commit_message),
        diff_excerpt=excerpt,
        diff_truncated=hit.diff_truncated or excerpt != hit.diff_excerpt,
        related_head_symbols=(),
        files=hit.files[:MAX_FILES],
    )


def _cut_message(message: str, max_chars: int) -> str:
    """Return the message with at most this many characters, but always with its subject."""
    if len(message) <= max_chars:
        return message
    subject = get_subject(message)
    return f"{message[:max_chars]}…" if max_chars > len(subject) else subject


def _select_leads(leads: Sequence[EvolutionLead]) -> tuple[EvolutionLead, ...]:
    """Return as many leads as shown, in their order."""
    counts: Counter[int] = Counter()
    ranked = []
    for index, lead in enumerate(leads):
        ranked.append((counts[lead.lines[0]], index))
        counts[lead.lines[0]] += 1
    return tuple(leads[index] for index in sorted(index for _, index in sorted(ranked)[:MAX_LEADS]))


def _reduce_explain_hit(hit: ExplainHit, message: str, detail: Detail, texts: Collection[str]) -> ExplainHit:
    """Reduce a hit. `texts`: the explained lines that its commit wrote, which its diff shows first of all."""
    excerpt = None
    if detail is Detail.NORMAL and hit.diff_excerpt is not None:
        excerpt = select_changed_lines(hit.diff_excerpt, lambda line: line in texts, MAX_EXPLAINED_LINES)
    return replace(
        hit,
        commit_message=message,
        diff_excerpt=excerpt,
        diff_truncated=hit.diff_truncated or excerpt != hit.diff_excerpt,
    )


def _remove_last_diff(answer: AnswerType) -> AnswerType | None:
    hits = list(answer.hits)
    with_diff = [number for number, hit in enumerate(hits) if hit.diff_excerpt]
    if not with_diff:
        return None
    last = with_diff[-1]
    hits[last] = replace(hits[last], diff_excerpt=None, diff_truncated=True)
    return replace(answer, hits=tuple(hits))


def _remove_last_hit(answer: AnswerType) -> AnswerType | None:
    return replace(answer, hits=answer.hits[:-1]) if len(answer.hits) > 1 else None
