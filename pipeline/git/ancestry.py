"""A history as a graph of parents: what a commit reaches, and the order it is indexed in; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

Parents = tuple[str, ...]


def reachable(tips: Iterable[str], parents_of: Callable[[str], Parents]) -> dict[str, Parents]:
    """Every commit the tips reach, themselves included, with its parents."""
    found: dict[str, Parents] = {}
    waiting = list(tips)
    while waiting:
        sha = waiting.pop()
        if sha not in found:
            found[sha] = parents_of(sha)
            waiting.extend(found[sha])
    return found


def parents_first(tip: str, parents: Mapping[str, Parents]) -> list[str]:
    """Every commit of the graph that `tip` reaches, parents before children.

    Depth first along first parents, so the order is a function of the graph alone. Leaving out a set that
    holds all its own ancestors keeps the order of the rest: a walk behind a watermark is the full walk's.
    """
    order: list[str] = []
    seen = {tip}
    path: list[tuple[str, Iterator[str]]] = [(tip, iter(parents[tip]))] if tip in parents else []
    while path:
        ahead = next((sha for sha in path[-1][1] if sha in parents and sha not in seen), None)
        if ahead is None:
            order.append(path.pop()[0])
        else:
            seen.add(ahead)
            path.append((ahead, iter(parents[ahead])))
    return order
