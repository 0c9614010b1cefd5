"""What a survey found, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pipeline.survey.directories import TOP, Directory
from pipeline.survey.effect import Effect
from pipeline.survey.plan import Plan
from serve.visible import visible

BAR_CELLS: Final = 20
# Directories shown one by one; what each of the others has is too little to look at.
SHOWN: Final = 20
LONGEST_NAME: Final = 32


def page(plan: Plan) -> Iterator[str]:
    """The lines: what was surveyed, each directory's share, what is suggested."""
    yield f"{plan.commits:,} commits up to {plan.head[:12]}, {plan.hunks:,} hunks (files changed, commit by commit)"
    if plan.ignored:
        yield f"{plan.ignored:,} more are left out already: by default, by git's attributes, by your .lineageignore"
    if plan.unread:
        yield f"{plan.unread:,} commits could not be read; `git fsck` names what is missing"
    yield ""
    yield from _table(plan)
    yield ""
    yield from _suggested(plan)


def _table(plan: Plan) -> Iterator[str]:
    shown = plan.directories[:SHOWN]
    width = max((len(_name(one)) for one in shown), default=0)
    width = max(width, len("directory"))
    yield f"{'directory':<{width}}  {'commits':>9}  {'share':<{BAR_CELLS + 5}}  {'hunks':>9}  mostly"
    for one in shown:
        share = one.commits / max(plan.commits, 1)
        bar = f"{'█' * round(share * BAR_CELLS):<{BAR_CELLS}} {share:>4.0%}"
        yield f"{_name(one):<{width}}  {one.commits:>9,}  {bar}  {one.hunks:>9,}  {_mostly(one)}"
    if len(plan.directories) > SHOWN:
        yield f"and {len(plan.directories) - SHOWN:,} more directories"
    yield "A commit counts in each directory it changes, so the shares add up to more than 100 %."


def _suggested(plan: Plan) -> Iterator[str]:
    if not plan.suggestions:
        yield "Nothing to suggest: no directory is large and only copied, generated, data or prose."
        return
    width = max(len(visible(one.pattern)) for one in plan.suggestions)
    yield "Suggested for .lineageignore:"
    for one in plan.suggestions:
        yield f"  {visible(one.pattern):<{width}}  {_effect(one.effect, plan)}"
        yield f"  {'':<{width}}  {one.reason}"
    if len(plan.suggestions) > 1:
        yield f"  {'together':<{width}}  {_effect(plan.together, plan)}"


def _effect(effect: Effect, plan: Plan) -> str:
    share = effect.hunks / max(plan.hunks, 1)
    return (
        f"leaves out {effect.hunks:,} hunks ({share:.0%}) of {effect.commits:,} commits, "
        f"{effect.whole:,} of them wholly"
    )


def _name(one: Directory) -> str:
    name = "(top level)" if one.path == TOP else visible(one.path)
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _mostly(one: Directory) -> str:
    """The kind that most of its files are of."""
    if one.judged and one.machine / one.judged > 0.5:
        return "made by programs"
    kinds = {"code": one.code, "prose": one.prose, "data": one.data}
    kinds["markup, settings, other"] = one.files - sum(kinds.values())
    return max(kinds, key=lambda kind: kinds[kind])
