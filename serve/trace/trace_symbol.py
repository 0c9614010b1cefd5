"""History of a symbol, found by its name, even if HEAD no longer has the symbol: `trace_symbol`.

A trace selects the symbol that the name means, collects the symbol's changes under all names that it had
(`symbol_tracer`), sorts them, and builds a hit for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pipeline.file_classification import get_grammar_name
from pipeline.git import commit_graph
from pipeline.git.changes import decode_path
from pipeline.git.repository import Repository, open_repository
from pipeline.interrupts import Deadline
from pipeline.walk import sort_newest_first
from serve.api_types import format_author_date, format_rfc3339
from serve.commit_types import (
    HeadPlace,
    TraceAnswer,
    TraceDetails,
    TraceHit,
    TraceMeta,
    TraceRequest,
    TraceStep,
)
from serve.evidence import EvidenceLoader
from serve.excerpts import get_subject
from serve.index_status import (
    IndexStatus,
    build_compatibility,
    build_index_hints,
    build_index_state,
    load_index_status,
)
from serve.repositories import locate_index
from serve.text import UNREADABLE_HINT, format_commit_count
from serve.trace.symbol_changes import SymbolChange
from serve.trace.symbol_tracer import (
    Candidate,
    SymbolTracer,
    UnknownSymbol,
    format_places,
    has_qualified_name,
    parse_symbol,
    score_restored,
)
from stores import index_copy
from stores.history import build_reachability_test

# Steps in the order in which an answer lists their counts.
STEPS: Final[tuple[TraceStep, ...]] = ("introduced", "restored", "modified", "moved", "renamed", "removed")


def trace_symbol(request: TraceRequest, path: Path, home: Path) -> TraceAnswer:
    """Return the history of a symbol of the repository at `path`. If `path` is a file, the symbol is in this file.

    Raises UnknownSymbol and AmbiguousSymbol. Raises NotIndexed if the repository has no index.
    """
    repository = open_repository(path)
    location = locate_index(home, repository)
    with index_copy.open_index_or_copy(location) as index:
        status = load_index_status(repository, index.connection, location=location, index_holder=index.holder)
        tracer = SymbolTracer(
            repository, index.connection, build_reachability_test(index.connection, status.reachability)
        )
        try:
            candidate, others = tracer.select_candidate(_add_file(request.symbol, path, repository))
        except UnknownSymbol as error:  # add the hint that the index may lack the commit with the symbol
            if status.head_error:
                raise UnknownSymbol(
                    "HEAD reaches no commit with the symbol.", hint=status.head_error
                ) from None
            raise UnknownSymbol(error.message, hint=" ".join([error.hint, *_build_hints(status)])) from None
        changes = tracer.follow_names(candidate)
    git = commit_graph.create_git_program(repository, location.git_directory)
    shas = sort_newest_first({change.commit_sha: change.date for change in changes}, repository, git)
    changes = _mark_restored(_sort_changes(changes, shas))
    at_head = tracer.find_head_places(changes)
    shown_changes = _select_changes(changes, request)
    limitations = list(_describe_limitations(changes, at_head, others, repository, tracer.deadline))
    if not has_qualified_name(candidate, request.symbol):
        # The name was `Object.function`, and only the last part was found.
        limitations.append(
            f"No symbol has the full name. This is the history of the function `{candidate.name}`."
        )
    newest = changes[0]
    loader = EvidenceLoader(repository, location.git_directory)
    return TraceAnswer(
        tuple(_build_hit(repository, change, loader) for change in shown_changes),
        TraceMeta(
            index_status=build_index_state(status),
            hint=" ".join(_build_hints(status)) or None,
            compatibility=build_compatibility(status.verdict),
            trace=TraceDetails(
                symbol=newest.place.format_place(newest.name),
                at_head=at_head,
                commits=len(shas),
                steps=_count_steps(changes),
                shown=len(shown_changes),
                order="oldest" if request.oldest_first else "newest",
                limitation=" ".join(limitations) or None,
            ),
        ),
    )


def _add_file(symbol: str, path: Path, repository: Repository) -> str:
    """Return the symbol as `PATH:symbol`; unchanged if it already has a path, or if `path` is no file."""
    file = path.resolve()
    if parse_symbol(symbol)[0] or not file.is_file() or not file.is_relative_to(repository.root):
        return symbol
    return f"{file.relative_to(repository.root).as_posix()}:{symbol}"


def _sort_changes(changes: Sequence[SymbolChange], shas: Sequence[str]) -> list[SymbolChange]:
    """Sort the changes by commit, in the order of `shas`. The changes of one commit are sorted by place and step."""
    positions = {sha: position for position, sha in enumerate(shas)}
    return sorted(changes, key=lambda change: (positions[change.commit_sha], change.place, change.step))


def _mark_restored(changes: Sequence[SymbolChange]) -> list[SymbolChange]:
    """Replace the step `introduced` by `restored` if an earlier change removed the symbol. `changes`: newest first."""
    marked_changes: list[SymbolChange] = []
    removal: SymbolChange | None = None
    for change in reversed(changes):
        if change.step == "removed":
            removal = change
        elif removal is not None and (similarity := score_restored(removal, change)):  # 0 if not `introduced`
            change = replace(
                change,
                step="restored",
                old_place=removal.place,
                old_name=removal.name,
                is_exact=similarity == 1,
            )
        marked_changes.append(change)
    return marked_changes[::-1]


def _select_changes(changes: Sequence[SymbolChange], request: TraceRequest) -> list[SymbolChange]:
    """Return at most `request.limit` changes, in the requested order.

    If there are more, modifications are left out first, and then other changes; of each, the oldest are left out.
    `changes`: newest first.
    """
    preferred_indexes = sorted(range(len(changes)), key=lambda index: changes[index].step == "modified")
    selected_changes = [changes[index] for index in sorted(preferred_indexes[: request.limit])]
    return selected_changes[::-1] if request.oldest_first else selected_changes


def _count_steps(changes: Sequence[SymbolChange]) -> dict[TraceStep, int]:
    counts = Counter(change.step for change in changes)
    return {step: counts[step] for step in STEPS if counts[step]}


def _build_hit(repository: Repository, change: SymbolChange, loader: EvidenceLoader) -> TraceHit:
    commit = repository.read_commit(change.commit_sha)
    evidence = loader.load({commit.sha: commit.message})[commit.sha]
    symbol, path = change.place.format_symbol(change.name), decode_path(change.place.path)
    old_symbol = old_path = None
    if change.old_place is not None:
        old_symbol = change.old_place.format_symbol(change.old_name or change.name)
        old_path = decode_path(change.old_place.path)
    return TraceHit(
        commit_sha=commit.sha,
        commit_subject=get_subject(commit.message),
        commit_author=commit.author_name,
        commit_date=format_rfc3339(commit.commit_date),
        author_date=format_author_date(commit.author_date, commit.commit_date),
        step=change.step,
        symbol=symbol,
        path=path,
        old_symbol=None if old_symbol == symbol else old_symbol,
        old_path=None if old_path == path else old_path,
        provenance="EXACT" if change.is_exact else "INFERRED",
        references=evidence.references,
        release=evidence.release,
    )


def _describe_limitations(
    changes: Sequence[SymbolChange],
    at_head: Sequence[HeadPlace],
    others: Sequence[Candidate],
    repository: Repository,
    deadline: Deadline,
) -> Iterator[str]:
    """Yield sentences about what the trace may lack. `others`: other symbols that the name can mean."""
    if others:
        yield format_places("Other symbols of this name, outside of the source code", list(map(str, others)))
    if all(get_grammar_name(decode_path(change.place.path)) is None for change in changes):
        yield (
            "Files of this language are not parsed. The symbol was found in git's hunk headers, so commits that "
            "introduced or removed it are shown as `modified`, and some commits can be missing."
        )
        return
    if deadline.is_exceeded:
        yield (
            "Time ran out: some commits shown as `modified` may have introduced, moved, renamed or removed the symbol, "
            "and some shown as `introduced` or `removed` may have renamed it."
        )
    elif all(change.step != "introduced" for change in changes):
        reason = (
            "this is a shallow clone"
            if repository.is_shallow
            else "the symbol may have been in a file that the index ignores"
        )
        yield f"The commit that introduced the symbol was not found: {reason}."
    if not at_head and changes[0].step != "removed":
        yield "HEAD has no such symbol, but no commit that removed the symbol was found."


def _build_hints(status: IndexStatus) -> Iterator[str]:
    yield from build_index_hints(status)
    if status.unreadable_commits:
        count = format_commit_count(status.unreadable_commits)
        yield f"{count} could not be read and may have changed the symbol. {UNREADABLE_HINT}"
