"""Excerpts of the diffs and messages of commits in an answer.

- A section of a diff is a part that starts with `@@`. A window is a run of consecutive lines of a diff.
- An answer is reduced to a level of detail or a number of tokens, because an agent pays for each token that it reads.

`Detail.NORMAL` keeps the first hit of a search whole. It reduces the other hits to subject, first sentence of the body,
three files, two changed lines and two changelog entries. Of an explanation, it keeps four changed lines of each commit,
two leads and 400 characters of all messages (subjects count, but are never cut). It omits sign-offs and co-authors.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Final, TypeVar

from pipeline.git import patches
from serve.explain_types import ExplainAnswer

if TYPE_CHECKING:
    from serve.commit_types import ChangeSearchAnswer
    from serve.explain_types import EvolutionLead, EvolutionStep, ExplainHit, RelatedCommit
    from serve.find_types import FindAnswer, PatternHit

# Maximum lines of a diff in an answer: enough to judge a commit, and five excerpts fit an agent's context.
EXCERPT_LINES: Final = 40
# Maximum characters of a line in an answer. Longer lines are data or generated code.
EXCERPT_COLUMNS: Final = 240
# Lines to show before and after a relevant line: as many as git shows.
CONTEXT_LINES: Final = 3
# First line of a window if there are lines above it in the diff.
OMITTED_MARK: Final = "…"
_SECTION_START: Final = re.compile(r"^@@ ", re.MULTILINE)
# Trailers that name people and say nothing about the change.
_SIGN_OFF: Final = re.compile(r"\n(?:Signed-off|Co-authored)-by: .*", re.IGNORECASE)
# Title such as `fix(parser): ...` or `walk: ...`, the body of many merges. Trailers begin with a capital letter.
_SCOPED_TITLE: Final = re.compile(r"[a-z]\w*(?:\([^)]*\))?!?: \S")

# Maximum number of files of a search hit in a reduced answer. Hits of a compact `find_pattern` have one.
MAX_REDUCED_FILES: Final = 3
# Maximum number of changed lines, and of changelog entries, of a search hit in a reduced answer.
MAX_REDUCED_LINES: Final = 2
# Maximum length of the sentence that a reduced answer has from the body of a message.
MAX_SENTENCE_CHARS: Final = 160
# Minimum length of this sentence. Shorter sentences are headings.
MIN_SENTENCE_WORDS: Final = 3
# Maximum number of changed lines of each commit in a reduced explanation, where messages matter more than diffs.
MAX_EXPLAINED_LINES: Final = 4
# Maximum length of all messages of a reduced explanation together. Subjects count, but are never cut.
MAX_MESSAGE_CHARS: Final = 400
# A message that is cut inside a word keeps the start of this word only if it has more characters than this.
MAX_CUT_WORD: Final = 30
# Maximum number of leads (guesses at the source of the lines) in a reduced explanation.
MAX_LEADS: Final = 2
# Diffs have about 3.2 characters per token in the vocabularies of current models; 3 leaves a margin.
CHARS_PER_TOKEN: Final = 3

AnswerType = TypeVar("AnswerType", "FindAnswer", "ExplainAnswer")
CommitType = TypeVar("CommitType", "RelatedCommit", "EvolutionStep", "EvolutionLead")


class Detail(StrEnum):
    """Level of detail of an answer: subjects without diffs, the most relevant lines, or everything."""

    COMPACT = "compact"
    NORMAL = "normal"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class DiffLine:
    """Line of a section: `text` with its sign, and line numbers in the old and the new file.

    `old_number` of an added line is the number of the next line of the old file. `new_number` of a removed line is the
    number of the next line of the new file.
    """

    text: str
    old_number: int
    new_number: int


@dataclass(frozen=True, slots=True)
class DiffWindow:
    """Consecutive lines of a diff. `has_more_above`, `has_more_below`: True if the diff has more lines there."""

    lines: tuple[str, ...]
    has_more_above: bool
    has_more_below: bool

    @property
    def text(self) -> str:
        """The lines as one text, below `OMITTED_MARK` if there are more above them."""
        return "\n".join((OMITTED_MARK, *self.lines) if self.has_more_above else self.lines)


def split_sections(diff: str) -> list[str]:
    """Split a diff into its `@@` sections. For a clean merge, which has a list of files instead, return no section."""
    starts = [match.start() for match in _SECTION_START.finditer(diff)]
    return [diff[start:end] for start, end in pairwise([*starts, len(diff)])]


def parse_section_header(section: str) -> tuple[int, int, int, int]:
    """Return the first line and the number of lines of a section in the old file, then in the new file."""
    return patches.parse_line_ranges(section.partition("\n")[0].encode("utf-8", "surrogatepass"))


def parse_section_lines(section: str) -> Iterator[DiffLine]:
    """Yield the lines of a section below its header."""
    old, old_count, new, new_count = parse_section_header(section)
    # If a side has no lines, the header has the number of the line before.
    old, new = old + (old_count == 0), new + (new_count == 0)
    for text in _split_lines(section)[1:]:
        yield DiffLine(text, old, new)
        old += text[:1] in (" ", "-")
        new += text[:1] in (" ", "+")


def format_lines(section: str, lines: Sequence[DiffLine]) -> str:
    """Format consecutive lines of a section as a section of their own, with a final line break."""
    return "\n".join([_format_section_header(section, lines), *(line.text for line in lines), ""])


def select_window(diff: str, terms: Collection[str], max_lines: int) -> DiffWindow:
    """Return the window of a diff with the most terms; of equal windows, the first.

    A window begins at the start of a section, or inside a section that is longer than the window. It has at most
    `max_lines` lines, including `OMITTED_MARK`. The diff itself may begin with that mark.
    """
    has_more_above = diff.startswith(f"{OMITTED_MARK}\n")
    unmarked_diff = diff.removeprefix(f"{OMITTED_MARK}\n")
    lines = _split_lines(unmarked_diff)
    if len(lines) > max_lines - int(has_more_above) and terms:
        sections = split_sections(unmarked_diff)
        size = max_lines - 2  # the mark and a section header take a line each
        section_index, line_index = _find_best_start(sections, frozenset(terms), size)
        if section_index or line_index:
            lines, has_more_above = _build_window_lines(sections[section_index:], line_index, size), True
    line_count = max_lines - int(has_more_above)
    return DiffWindow(tuple(lines[:line_count]), has_more_above, has_more_below=len(lines) > line_count)


def select_changed_lines(diff: str, rate: Callable[[str], int], max_lines: int) -> str:
    """Return the `max_lines` added and removed lines with the highest ratings, in the order of the diff.

    `rate` gets a line without its sign. Of lines with equal ratings, the first are returned. A diff without added and
    removed lines, such as the list of files of a merge, is cut to its first lines.
    """
    lines = [line for section in split_sections(diff) for line in _split_lines(section)[1:]]
    changed_lines = [line for line in lines if line[:1] in ("+", "-") and line[1:].strip()]
    if not changed_lines:
        return "\n".join(_split_lines(diff)[:max_lines])
    best = sorted(range(len(changed_lines)), key=lambda index: -rate(changed_lines[index][1:]))[:max_lines]
    return "\n".join(changed_lines[index] for index in sorted(best))


def truncate_diff(diff: str, terms: Collection[str]) -> str:
    """Truncate a diff to the window of `EXCERPT_LINES` lines with the most terms, and each line by `truncate_line`."""
    narrow_diff = "\n".join(map(truncate_line, diff.split("\n")))
    if len(_split_lines(diff)) <= EXCERPT_LINES:
        return narrow_diff
    return select_window(narrow_diff, terms, EXCERPT_LINES).text


def truncate_line(line: str) -> str:
    """Truncate a line that is longer than `EXCERPT_COLUMNS` characters, and add an ellipsis."""
    return line if len(line) <= EXCERPT_COLUMNS else f"{line[:EXCERPT_COLUMNS]}…"


def reduce_find_answer(answer: FindAnswer, detail: Detail, terms: Collection[str]) -> FindAnswer:
    """Reduce the hits of a search to this level of detail. `terms`: stems of the query; lines with them are preferred.

    Weak hits keep only the subject, unless all hits are weak. `Detail.NORMAL` always keeps the first hit whole.
    """
    if detail is Detail.FULL:
        return answer
    are_all_weak = all(hit.weak for hit in answer.hits)
    hits = tuple(
        replace(hit, commit_message=remove_sign_offs(hit.commit_message))
        if number == 0 and detail is Detail.NORMAL
        else _reduce_pattern_hit(hit, detail, terms, has_only_subject=bool(hit.weak) and not are_all_weak)
        for number, hit in enumerate(answer.hits)
    )
    return replace(answer, hits=hits)


def reduce_search_answer(answer: ChangeSearchAnswer) -> ChangeSearchAnswer:
    """Reduce the hits of a search for a text to `MAX_REDUCED_FILES` files without lines."""
    hits = tuple(
        replace(hit, files=tuple(replace(file, lines=()) for file in hit.files[:MAX_REDUCED_FILES]))
        for hit in answer.hits
    )
    return replace(answer, hits=hits)


def reduce_explain_answer(answer: ExplainAnswer, detail: Detail) -> ExplainAnswer:
    """Reduce the hits, leads and other commits of an explanation to this level of detail."""
    if detail is Detail.FULL:
        return answer
    texts_by_commit: dict[str | None, set[str]] = defaultdict(set)
    for line in answer.lines:
        texts_by_commit[line.commit_sha].add(line.text)
    remaining_chars = 0 if detail is Detail.COMPACT else MAX_MESSAGE_CHARS
    hits = []
    for hit in answer.hits:
        message = cut_message(remove_sign_offs(hit.commit_message), remaining_chars)
        remaining_chars = max(0, remaining_chars - len(message))
        hits.append(_reduce_explain_hit(hit, message, detail, texts_by_commit[hit.commit_sha]))
    details = answer.meta.explain
    explain = replace(details, leads=_select_leads(details.leads))
    if detail is Detail.COMPACT:
        explain = replace(
            explain,
            related_commits=_reduce_to_subjects(details.related_commits),
            evolution=_reduce_to_subjects(details.evolution),
            leads=_reduce_to_subjects(explain.leads),
        )
    return replace(answer, hits=tuple(hits), meta=replace(answer.meta, explain=explain))


def limit_tokens(
    answer: AnswerType, max_tokens: int | None, render: Callable[[AnswerType], str]
) -> AnswerType:
    """Remove parts of an answer until it has at most about `max_tokens` tokens, or only the first hit is left.

    Parts are removed in this order: diffs; leads, earlier commits and related commits of an explanation; hits except
    the first. Of each kind, the last part is removed first. `max_tokens`: None for no limit. `render`: returns the text
    whose length counts.
    """
    while max_tokens is not None and len(render(answer)) > max_tokens * CHARS_PER_TOKEN:
        shortened = _remove_last_diff(answer) or _remove_last_item(answer) or _remove_last_hit(answer)
        if shortened is None:
            break
        answer = shortened
    return answer


def parse_content_words(query: str) -> frozenset[str]:
    """Return the stems of the words of a query, without function words, for `reduce_find_answer`."""
    # Imported here, because servers and commands start without the stemmer.
    from pipeline.text import count_terms
    from serve.search.query_hints import extract_content_words

    return extract_content_words(count_terms(query))


def get_subject(message: str) -> str:
    """Return the first line of a commit message."""
    return message.strip().partition("\n")[0].rstrip()


def find_first_sentence(message: str) -> str:
    """Return the first sentence of a message's body; empty if there is none, or if it exceeds `MAX_SENTENCE_CHARS`.

    Skips trailers, code, sentences that the subject contains, and those with less than `MIN_SENTENCE_WORDS` words.
    """
    from pipeline.text import BULLET, NON_PROSE, SENTENCE_END  # imported here, because it imports the stemmer

    subject, _, body = message.strip().partition("\n")
    paragraphs: list[list[str]] = [[]]
    for line in body.splitlines():
        if not line.strip() or BULLET.match(line):
            paragraphs.append([])
        paragraphs[-1].append(BULLET.sub("", line, count=1))
    for lines in paragraphs:
        prose = takewhile(lambda line: _SCOPED_TITLE.match(line) or not NON_PROSE.match(line), lines)
        sentence = SENTENCE_END.split(" ".join(" ".join(prose).split()), maxsplit=1)[0]
        if len(sentence.split()) >= MIN_SENTENCE_WORDS and sentence.casefold() not in subject.casefold():
            return sentence if len(sentence) <= MAX_SENTENCE_CHARS else ""
    return ""


def cut_message(message: str, max_chars: int) -> str:
    """Return the subject of a message, and as many of the further words as fit into `max_chars` characters."""
    if len(message) <= max_chars:
        return message
    subject = get_subject(message)
    if max_chars <= len(subject):
        return subject
    text = message[:max_chars]
    words = text if message[max_chars].isspace() else re.sub(r"\S+$", "", text)
    return f"{words.rstrip()} …" if len(text) - len(words) <= MAX_CUT_WORD else f"{text}…"


def remove_sign_offs(message: str) -> str:
    """Return a message without the trailers `Signed-off-by` and `Co-authored-by`."""
    return _SIGN_OFF.sub("", message)


def _build_window_lines(sections: Sequence[str], first_index: int, size: int) -> list[str]:
    """Return all lines of the sections, but of the first section only those from `first_index` on.

    If lines are left out, a new header describes the first section as if it ended after `size` lines.
    """
    if not first_index:
        return _split_lines("".join(sections))
    first_section_lines = list(parse_section_lines(sections[0]))[first_index:]
    other_lines = _split_lines("".join(sections[1:])) if len(sections) > 1 else []
    header = _format_section_header(sections[0], first_section_lines[:size])
    return [header, *(line.text for line in first_section_lines), *other_lines]


def _find_best_start(sections: Sequence[str], terms: frozenset[str], size: int) -> tuple[int, int]:
    """Return where the window of `size` lines with the most terms starts: index of the section, index of its line.

    Of equal windows, the first is chosen. Line indexes do not count the section's header.
    """
    best_start, best_counts = (0, 0), (-1, -1)
    for section_index, section in enumerate(sections):
        terms_per_line = _find_terms_per_line(section, terms)
        for line_index in _list_candidate_starts(terms_per_line, size):
            counts = _count_distinct_terms(terms_per_line[line_index : line_index + size])
            if counts > best_counts:
                best_start, best_counts = (section_index, line_index), counts
    return best_start


def _list_candidate_starts(terms_per_line: Sequence[tuple[frozenset[str], bool]], size: int) -> Iterator[int]:
    """Yield line indexes where a window can start: 0, and `CONTEXT_LINES` above each line with a term."""
    yield 0
    last_start = len(terms_per_line) - size
    if last_start > 0:
        yield from (
            min(index - CONTEXT_LINES, last_start)
            for index, (terms, _) in enumerate(terms_per_line)
            if terms and index > CONTEXT_LINES
        )


def _count_distinct_terms(terms_per_line: Sequence[tuple[frozenset[str], bool]]) -> tuple[int, int]:
    """Return the number of distinct terms in changed lines, and in all lines."""
    changed: frozenset[str] = frozenset().union(
        *(terms for terms, is_changed in terms_per_line if is_changed)
    )
    return len(changed), len(changed.union(*(terms for terms, _ in terms_per_line)))


def _find_terms_per_line(section: str, terms: frozenset[str]) -> list[tuple[frozenset[str], bool]]:
    """Return for each line of a section the terms in it, and True if the line is added or removed."""
    from pipeline.text import count_terms  # imported here, because `explain` needs no stemmer

    return [
        (terms.intersection(count_terms(line[1:])), line[:1] in ("+", "-"))
        for line in _split_lines(section)[1:]
    ]


def _format_section_header(section: str, lines: Sequence[DiffLine]) -> str:
    """Return a header for consecutive lines of a section. It ends with the same text as the section's header."""
    old_count = sum(line.text[:1] in (" ", "-") for line in lines)
    new_count = sum(line.text[:1] in (" ", "+") for line in lines)
    old, new = lines[0].old_number - (not old_count), lines[0].new_number - (not new_count)
    heading = section.partition("\n")[0].split("@@", 2)[2]
    return f"@@ -{old},{old_count} +{new},{new_count} @@{heading}"


def _split_lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def _reduce_pattern_hit(
    hit: PatternHit, detail: Detail, terms: Collection[str], *, has_only_subject: bool
) -> PatternHit:
    excerpt = None
    if detail is Detail.NORMAL and hit.diff_excerpt is not None and not has_only_subject:
        from pipeline.text import count_terms  # imported here, because explanations need no stemmer

        excerpt = select_changed_lines(
            hit.diff_excerpt,
            lambda line: len(count_terms(line).keys() & terms),
            MAX_REDUCED_LINES,
        )
    subject, sentence = get_subject(hit.commit_message), find_first_sentence(hit.commit_message)
    return replace(
        hit,
        commit_message=f"{subject}\n\n{sentence}" if sentence and not has_only_subject else subject,
        diff_excerpt=excerpt,
        diff_truncated=hit.diff_truncated or excerpt != hit.diff_excerpt,
        related_head_symbols=(),
        files=() if has_only_subject else hit.files[: 1 if detail is Detail.COMPACT else MAX_REDUCED_FILES],
        changelog=() if has_only_subject else hit.changelog[:MAX_REDUCED_LINES],
    )


def _select_leads(leads: Sequence[EvolutionLead]) -> tuple[EvolutionLead, ...]:
    """Return at most `MAX_LEADS` leads in their order. The first lead of each line is preferred to further leads."""
    lead_counts: Counter[int] = Counter()
    ranks = []
    for index, lead in enumerate(leads):
        first_line = lead.lines[0]
        ranks.append((lead_counts[first_line], index))
        lead_counts[first_line] += 1
    selected_indexes = sorted(index for _, index in sorted(ranks)[:MAX_LEADS])
    return tuple(leads[index] for index in selected_indexes)


def _reduce_to_subjects(commits: Sequence[CommitType]) -> tuple[CommitType, ...]:
    return tuple(replace(commit, commit_message=get_subject(commit.commit_message)) for commit in commits)


def _reduce_explain_hit(hit: ExplainHit, message: str, detail: Detail, texts: Collection[str]) -> ExplainHit:
    """Replace the message of a hit, and reduce its diff to this level of detail.

    `texts`: the explained lines that the hit's commit wrote. The diff keeps these lines rather than other lines.
    """
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
    """Return a copy without the diff of the last hit that has one; None if no hit has a diff."""
    hits = list(answer.hits)
    indexes_with_diff = [index for index, hit in enumerate(hits) if hit.diff_excerpt]
    if not indexes_with_diff:
        return None
    last = indexes_with_diff[-1]
    hits[last] = replace(hits[last], diff_excerpt=None, diff_truncated=True)
    return replace(answer, hits=tuple(hits))


def _remove_last_item(answer: AnswerType) -> AnswerType | None:
    """Return a copy without the last lead, or else the last earlier commit, or else the last related commit.

    Return None if the answer has none of these.
    """
    if not isinstance(answer, ExplainAnswer):
        return None
    details = answer.meta.explain
    for name in ("leads", "evolution", "related_commits"):
        if items := getattr(details, name):
            omitted_items = (details.omitted_items or 0) + 1
            details = replace(details, **{name: items[:-1]}, omitted_items=omitted_items)
            return replace(answer, meta=replace(answer.meta, explain=details))
    return None


def _remove_last_hit(answer: AnswerType) -> AnswerType | None:
    """Return a copy without the last hit; None if there is only one."""
    return replace(answer, hits=answer.hits[:-1]) if len(answer.hits) > 1 else None
