"""Placed hunks -> one for each commit: where it stands, and the hunk that it is shown by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from pipeline.survey.roles import Role, role_of
from serve.find.rerank import Placed

# Who asks how something was done wants to see the code. A changelog says the same in fewer words, and a test in more of
# the question's, so that either is often likelier than the change itself: of 280 hits of 56 questions to httpx, 67 were
# shown by one though the commit's code was a candidate. In 57 of these it had half the likelihood or more, and all but
# three of these changes were what the commit did about the question; of the 10 below, half were of another matter.
LIKELY_ENOUGH: Final = 0.5


def best_of_each_commit(ordered: Iterable[Placed], count: int, roles: frozenset[Role]) -> tuple[Placed, ...]:
    """The first commits, each as likely as its best hunk, shown by its change to the program where that answers too.

    `roles` are what else the question asks for.
    """
    of_commits: dict[str, list[Placed]] = {}
    for placed in ordered:
        of_commits.setdefault(placed.candidate.commit_sha, []).append(placed)
    return tuple(_shown(own, roles | {"source"}) for own in islice(of_commits.values(), count))


def _shown(own: Sequence[Placed], wanted: frozenset[Role]) -> Placed:
    """The first of a commit's hunks, as the likeliest of them that is wanted where one is likely enough."""
    first = own[0]
    if first.probability is None:  # fusion's order is also the order within a commit
        return first
    least = LIKELY_ENOUGH * first.probability
    likely = (one for one in own if (one.probability or 0.0) >= least and _as_literal(one, first))
    shown = next((one for one in likely if role_of(one.candidate.file_path) in wanted), first)
    return replace(first, candidate=shown.candidate, found=shown.found)


def _as_literal(one: Placed, first: Placed) -> bool:
    """Whether it has all that the first has of what the question says to the letter."""
    return all(mine or not others for mine, others in zip(one.literal, first.literal, strict=True))
