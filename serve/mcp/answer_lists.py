"""Answers to calls about several items: questions, patterns, or commits and paths.

The error of a failed item takes the place of its answer. A call answers at most `MAX_ITEMS` items. It names the first
`MAX_NAMED` of the others and counts the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple

from mcp_types import CallToolResult

from pipeline.interrupts import check_cancelled
from serve.errors import BadRequest
from serve.excerpts import Detail, limit_tokens, parse_content_words, reduce_find_answer
from serve.find_types import FindAnswer, FindRequest
from serve.mcp.answer_text import build_content, describe_error, format_find_answer
from serve.mcp.tools import build_call_result
from serve.text import add_path_to_commands, escape_line, format_count
from stores.errors import LineageError

# Longest part of an argument that an answer repeats, in characters.
MAX_SHOWN_ARGUMENT: Final = 200
# Maximum number of items of a list that a call answers, because each item needs its own search or git run.
MAX_ITEMS: Final = 10
# Maximum number of items that a call tries, including those that it skips.
MAX_TRIED_ITEMS: Final = 50
# Maximum number of omitted items that a note names.
MAX_NAMED: Final = 10


class SkippedItem(LineageError):
    """Error for an item that the answer leaves out, such as a file that one of several commits does not change."""


class ShortenedAnswer(NamedTuple):
    """Answer to one item of a list, cut to a part of the budget. `size`: amount of budget that it takes."""

    text: str
    content: dict[str, Any]
    size: int


class ItemAnswer(NamedTuple):
    """Answer to one item of a list.

    `size`: amount of budget that the complete answer takes. `shorten`: returns the answer cut to a given amount. The
    caller chooses the unit of the budget, such as tokens. `names_item`: True if the answer itself names the item, so
    that it needs no heading.
    """

    size: int
    shorten: Callable[[int], ShortenedAnswer]
    names_item: bool = False


def answer_items(
    items: Iterable[Mapping[str, str]],
    count: int,
    budget: int,
    min_share: int,
    answer_item: Callable[[Mapping[str, str]], ItemAnswer],
) -> CallToolResult:
    """Answer each item of list arguments within one budget; a failed item has its error as its answer.

    A single item is answered like a call without a list. Items that raise SkippedItem are only counted. Raises
    LineageError if all fail.

    - `items`: arguments of each item. An iterator is read only as far as items are answered or named.
    - `count`: number of all items.
    - `budget`: limit of the sizes of all answers together.
    - `min_share`: each item gets at least this much, even if the total then exceeds the budget.
    """
    iterator = iter(items)
    if count == 1:
        text, content, _ = answer_item(next(iterator)).shorten(budget)
        return build_call_result(text, content)
    answered_items, skip_errors = _answer_each(iterator, answer_item)
    answers = [answer for _, answer in answered_items]
    _raise_if_all_failed(answers or skip_errors[:1])
    sizes = [answer.size if isinstance(answer, ItemAnswer) else 0 for answer in answers]
    blocks: list[str] = []
    results: list[dict[str, Any]] = []
    for position, (item, answer) in enumerate(answered_items):
        if isinstance(answer, ItemAnswer):
            text, content, size = answer.shorten(_compute_share(budget, sizes[position:], min_share))
            budget -= size
        else:
            text, content = _format_error(answer), {"error": describe_error(answer)}
        has_heading = not (isinstance(answer, ItemAnswer) and answer.names_item)
        blocks.append(f"{_format_item(item)}\n{text}" if has_heading else text)
        results.append({"request": dict(item), **content})
    structured: dict[str, Any] = {"results": results}
    if skip_errors:
        structured["skipped_count"] = len(skip_errors)
        blocks.append(
            f"Note: Not shown, as the commit does not change the file: {format_count(len(skip_errors), 'pair')}."
        )
    if left_out_count := count - len(answered_items) - len(skip_errors):
        left_out = [*islice(iterator, MAX_NAMED)]
        structured |= {"left_out": left_out, "left_out_count": left_out_count}
        blocks.append(_format_left_out([*map(_format_item, left_out)], left_out_count))
    return build_call_result("\n\n".join(blocks), structured)


def _answer_each(
    items: Iterable[Mapping[str, str]], answer_item: Callable[[Mapping[str, str]], ItemAnswer]
) -> tuple[list[tuple[Mapping[str, str], ItemAnswer | LineageError]], list[LineageError]]:
    """Return the first `MAX_ITEMS` items with their answers or errors, and the errors of the skipped items."""
    answered_items: list[tuple[Mapping[str, str], ItemAnswer | LineageError]] = []
    skip_errors: list[LineageError] = []
    for item in islice(items, MAX_TRIED_ITEMS):
        answer = _try_to_answer(item, answer_item)
        if isinstance(answer, SkippedItem):
            skip_errors.append(answer)
            continue
        answered_items.append((item, answer))
        if len(answered_items) == MAX_ITEMS:
            break
    return answered_items, skip_errors


def _try_to_answer(
    item: Mapping[str, str], answer_item: Callable[[Mapping[str, str]], ItemAnswer]
) -> ItemAnswer | LineageError:
    check_cancelled()
    try:
        return answer_item(item)
    except LineageError as error:
        return error


def _compute_share(budget: int, sizes: Sequence[int], min_share: int) -> int:
    """Return how much of the budget the first item gets, but at least `min_share`.

    If all items fit, the first item gets its size. Otherwise, small items get their size, and large items divide the
    rest equally. `sizes`: sizes of the first item and the items after it.
    """
    equal_share = budget
    for rank, size in enumerate(sorted(sizes)):
        equal_share = budget // (len(sizes) - rank)
        if size > equal_share:
            break
        budget -= size
    return max(min_share, min(sizes[0], equal_share))


def _raise_if_all_failed(answers: Sequence[object]) -> None:
    """If all answers are errors, raise the first. If their texts differ, raise BadRequest with all texts."""
    errors = [answer for answer in answers if isinstance(answer, LineageError)]
    if len(errors) == len(answers):
        texts = dict.fromkeys(map(str, errors))
        raise errors[0] if len(texts) == 1 else BadRequest("\n".join(texts))


def _format_item(item: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {_shorten_argument(value)}" for name, value in item.items())


def find_for_queries(
    find: Callable[[FindRequest], FindAnswer], request: FindRequest, queries: Sequence[str]
) -> list[FindAnswer | LineageError]:
    """Return the answer, or error, of the request with each of the first `MAX_ITEMS` queries.

    Raises LineageError if all queries fail. If the first query fails with an error other than BadRequest, that error is
    raised without trying the others.
    """
    answers: list[FindAnswer | LineageError] = []
    for query in queries[:MAX_ITEMS]:
        check_cancelled()
        try:
            answer = find(replace(request, text=query))
            answers.append(answer.rewrite_commands(add_path_to_commands))
        except LineageError as error:
            depends_on_query = isinstance(error, BadRequest)
            if not answers and not depends_on_query:
                raise
            answers.append(error)
    _raise_if_all_failed(answers)
    return answers


def build_find_result(
    queries: Sequence[str],
    answers: Sequence[FindAnswer | LineageError],
    detail: Detail,
    max_tokens: int | None,
) -> CallToolResult:
    """Return the result of `find_pattern`. `max_tokens`: limit for all answers together; None for no limit.

    `answers` may be fewer than `queries`. In the structured content, `more` has the answers after the first, `left_out`
    the first `MAX_NAMED` queries without an answer, and `left_out_count` the number of all such queries.
    """
    max_answer_tokens = None if max_tokens is None else max(1, max_tokens // len(answers))
    shortened: list[FindAnswer | LineageError] = []
    contents: list[dict[str, Any]] = []
    for query, answer in zip(queries, answers, strict=False):
        if isinstance(answer, FindAnswer):
            words = parse_content_words(query) if detail is Detail.NORMAL else ()
            answer = reduce_find_answer(answer, detail, words)
            answer = limit_tokens(answer, max_answer_tokens, format_find_answer)
            contents.append(build_content(answer.to_json_dict()))
        else:
            contents.append({"error": describe_error(answer)})
        shortened.append(answer)
    first_content, *others = contents
    content = {"hits": [], "_meta": {}, **first_content}  # an error has neither, but clients read both
    if others:
        content["more"] = [
            {"query": query, **other} for query, other in zip(queries[1:], others, strict=False)
        ]
    if len(queries) > len(answers):
        left_out = queries[len(answers) :]
        content |= {"left_out": list(left_out[:MAX_NAMED]), "left_out_count": len(left_out)}
    return build_call_result(_format_find_answers(queries, shortened), content)


def _format_find_answers(queries: Sequence[str], answers: Sequence[FindAnswer | LineageError]) -> str:
    """Return the text of the answers to queries. Queries without an answer are named as left out.

    If an earlier hit shows the patch of a hit or a copy of it, the place of the earlier hit is named instead. But the
    first hit of an answer is repeated, unless an earlier answer has it first, too. A repeated hint is shown once.
    """
    blocks: list[str] = []
    # For each patch (commit and path): its place, and whether it is the first hit of an answer. First hits have more
    # detail than the others, so they are repeated below other hits.
    places: dict[tuple[str, str], tuple[str, bool]] = {}
    hints: set[str | None] = set()
    for query_number, (query, answer) in enumerate(zip(queries, answers, strict=False), 1):
        if isinstance(answer, LineageError):
            text = _format_error(answer)
        else:
            places_of_hits = {}
            for number, hit in enumerate(answer.hits, 1):
                copies = [(sha, hit.file_path) for sha in (hit.commit_sha, *hit.also)]
                place, is_first = next((places[copy] for copy in copies if copy in places), ("", False))
                if place and (is_first or number > 1):
                    places_of_hits[hit.commit_sha] = place
                else:
                    query_prefix = f"query {query_number}, " if len(queries) > 1 else ""
                    places |= dict.fromkeys(copies, (f"{query_prefix}hit {number}", number == 1))
            meta = replace(answer.meta, hint=None) if answer.meta.hint in hints else answer.meta
            hints.add(answer.meta.hint)
            text = format_find_answer(replace(answer, meta=meta), places_of_hits)
        blocks.append(f"Question: {_shorten_argument(query)}\n{text}" if len(queries) > 1 else text)
    if left_out := queries[len(answers) :]:
        blocks.append(_format_left_out(left_out[:MAX_NAMED], len(left_out)))
    return "\n\n".join(blocks)


def _format_error(error: LineageError) -> str:
    """Return the line of an error that takes the place of one of several answers."""
    return f"Error: {escape_line(describe_error(error))}"


def _format_left_out(names: Sequence[str], count: int) -> str:
    """Return a note about the `count` items that a call leaves out, because it answers at most `MAX_ITEMS`."""
    named = "; ".join(map(_shorten_argument, names))
    others = f" and {count - len(names):,} more" if count > len(names) else ""
    return f"Note: Left out, as a call answers at most {MAX_ITEMS}: {named}{others}"


def _shorten_argument(value: str) -> str:
    """Return an argument on one line, cut to `MAX_SHOWN_ARGUMENT` characters."""
    return escape_line(value[:MAX_SHOWN_ARGUMENT])
