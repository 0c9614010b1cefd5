"""Histories -> lists: a question, the change that answers it, and what both lanes take for the answer.

python -m pipeline.training.mine_pairs LISTS REPOSITORY... [--commits N] [--questions N] [--seed N] [--jobs N]

A REPOSITORY is a local clone, bare or not; histories whose lists lie in LISTS are left as they are.
"""

from __future__ import annotations

import argparse
import logging
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.encoders.base import tokenizer
from pipeline.training.candidates import Floats, Ints, Lanes, Told, told
from pipeline.training.commit_sampling import Merged, merges
from pipeline.training.word_bags import name_of
from pipeline.workers import Workers

COMMITS: Final = 3_000
QUESTIONS: Final = 3_000
SEED: Final = 1
DRAW: Final = 7
FEWEST_COMMITS: Final = 200
FEWEST_NEWS_WORDS: Final = 5
SENTENCES: Final = 2

# Changes of each lane that are fused, by reciprocal rank, and how many of other commits stand beside the answer.
DEPTH: Final = 80
FUSED_AFTER: Final = 60
OTHERS: Final = 24

AT_ONCE: Final = 200
# Tokens kept: more than what is read of each.
KEPT_TOKENS: Final = {"question": 40, "rest": 64, "message": 64, "change": 128}

logger = logging.getLogger(__name__)


class Kind(IntEnum):
    """What is asked, and so what of a message may be shown beside it."""

    SUBJECT = 0  # of a commit whose message is hidden
    SENTENCE = 1  # of a body; the rest of the message is shown
    NEWS = 2  # what the commit added to a changelog
    TITLE = 3  # of the merge that brought the commit, with others perhaps


# The share of each; where a history has fewer of one, subjects fill the rest.
SHARES: Final = {Kind.NEWS: 0.2, Kind.SENTENCE: 0.3, Kind.TITLE: 0.15}


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, the numbers of the commits of which any answers it, and what is left of the message."""

    kind: Kind
    commits: tuple[int, ...]
    text: str
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """What to read, and where the lists go."""

    repository: Path
    file: Path
    commits: int
    questions: int
    seed: int


def mined(source: Source) -> str:
    """Write a history's lists; a line about them."""
    if source.file.exists():
        return f"{source.file.stem}: there"
    commits = told(source.repository, source.commits, source.seed)
    if len(commits) < FEWEST_COMMITS:
        return f"{source.file.stem}: too few commits"
    titles = merges(source.repository, source.seed, source.commits)
    asked = questions(commits, titles, source.questions)
    lanes = Lanes.of(commits)
    found = [*lists(asked, commits, lanes)]
    write(source.file, asked, commits, lanes.commit, found)
    return f"{source.file.stem}: {len(commits)} commits, {len(found)} lists"


def questions(commits: Sequence[Told], titles: Iterable[Merged], most: int) -> list[Asked]:
    """What is asked of a history, drawn by a seed."""
    found = [one for number, commit in enumerate(commits) for one in _of(number, commit)]
    found += _of_merges(commits, titles)
    random.Random(DRAW).shuffle(found)  # noqa: S311 - a repeatable draw, nothing secret
    kept: list[Asked] = []
    for kind, share in SHARES.items():
        kept += [one for one in found if one.kind is kind][: int(most * share)]
    return kept + [one for one in found if one.kind is Kind.SUBJECT][: most - len(kept)]


def _of(number: int, commit: Told) -> Iterator[Asked]:
    yield Asked(Kind.SUBJECT, (number,), commit.subject)
    for sentence in commit.sentences[:SENTENCES]:
        if sentence in commit.message:
            yield Asked(Kind.SENTENCE, (number,), sentence, commit.message.replace(sentence, ""))
    if len(commit.news.split()) >= FEWEST_NEWS_WORDS:
        yield Asked(Kind.NEWS, (number,), commit.news, commit.message)


def _of_merges(commits: Sequence[Told], titles: Iterable[Merged]) -> Iterator[Asked]:
    """Titles that no commit of theirs has for its subject."""
    numbers = {commit.sha: number for number, commit in enumerate(commits)}
    for merge in titles:
        brought = tuple(numbers[sha] for sha in merge.commits if sha in numbers)
        subjects = {commits[number].subject.lower() for number in brought}
        if brought and merge.title.lower() not in subjects:
            yield Asked(Kind.TITLE, brought, merge.title)


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Numbers of a question, of the change that answers it best and of others, likest first.

    `known` is what the lanes say of each change: its score by words, as a share of the best one, and its cosine.
    """

    question: int
    changes: list[int]
    known: Floats


def lists(asked: Sequence[Asked], commits: Sequence[Told], lanes: Lanes) -> Iterator[Candidates]:
    """The candidates of each question that has enough of them."""
    subjects = [commit.subject.lower() for commit in commits]
    for hidden in (True, False):
        chosen = [number for number, one in enumerate(asked) if (one.kind is Kind.SUBJECT) is hidden]
        for start in range(0, len(chosen), AT_ONCE):
            part = chosen[start : start + AT_ONCE]
            scores = lanes.ask([asked[number].text for number in part], shown=not hidden)
            for number, by_words, near in zip(part, *scores, strict=True):
                answers = asked[number].commits
                others = _others(answers, subjects, lanes.commit, (by_words, near))
                if len(others) == OTHERS:
                    share = by_words / max(float(by_words.max()), 1e-6)
                    own = np.flatnonzero(np.isin(lanes.commit, answers))
                    changes = [int(own[np.argmax(share[own] + near[own])]), *others]
                    yield Candidates(number, changes, np.stack([share[changes], near[changes]], axis=1))


def _others(
    answers: Sequence[int], subjects: Sequence[str], commits: Ints, lanes: Iterable[Floats]
) -> list[int]:
    """Changes of other commits, one of each, as both lanes fuse them; who says the same is no other."""
    said = {subjects[answer] for answer in answers}
    fused: dict[int, float] = {}
    for scores in lanes:
        first = np.argpartition(-scores, min(DEPTH, len(scores) - 1))[:DEPTH]
        for rank, change in enumerate(first[np.argsort(-scores[first])].tolist()):
            fused[change] = fused.get(change, 0.0) + 1 / (FUSED_AFTER + rank)
    best: dict[int, int] = {}
    for change in sorted(fused, key=lambda one: -fused[one]):
        if subjects[commits[change]] not in said:
            best.setdefault(int(commits[change]), change)
    return list(best.values())[:OTHERS]


def write(
    file: Path, asked: Sequence[Asked], commits: Sequence[Told], commit: Ints, found: Sequence[Candidates]
) -> None:
    """Lists and the tokens of what they name: `question`, `rest`, `message` and `change`, each with its ends."""
    texts = {
        "question": [one.text for one in asked],
        "rest": [one.rest for one in asked],
        "message": [one.message for one in commits],
        "change": [text for one in commits for text in one.changes],
    }
    read = tokenizer()
    kept: dict[str, npt.NDArray[np.generic]] = {}
    for name, said in texts.items():
        ids = [one.ids[: KEPT_TOKENS[name]] for one in read.encode_batch(said, add_special_tokens=False)]
        kept[name] = np.array([token for row in ids for token in row], np.uint16)
        kept[f"{name} ends"] = np.cumsum([len(row) for row in ids])
    kept["kinds"] = np.array([one.kind for one in asked], np.uint8)
    kept["commit"] = commit
    kept["asked"] = np.array([one.question for one in found], np.int64)
    kept["lists"] = np.array([one.changes for one in found], np.int64).reshape(-1, OTHERS + 1)
    kept["known"] = np.array([one.known for one in found], np.float16).reshape(-1, OTHERS + 1, 2)
    partial = file.with_suffix(".npz.part")
    with partial.open("wb") as opened:
        np.savez(opened, allow_pickle=False, **kept)
    partial.replace(file)


def main() -> None:
    """Read each history and keep its lists."""
    given = _parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    given.lists.mkdir(parents=True, exist_ok=True)
    sources = [
        Source(path, given.lists / f"{name_of(path)}.npz", given.commits, given.questions, given.seed)
        for path in map(Path.resolve, given.repositories)
    ]
    with Workers(given.jobs) as workers:
        for line in workers.mapped(mined, sources):
            logger.info("%s", line)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pipeline.training.mine_pairs", description=__doc__)
    parser.add_argument("lists", type=Path)
    parser.add_argument("repositories", nargs="+", type=Path, metavar="REPOSITORY")
    parser.add_argument("--commits", type=int, default=COMMITS, help="most commits of a history")
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="most questions of a history")
    parser.add_argument("--seed", type=int, default=SEED, help="which commits are drawn")
    parser.add_argument("--jobs", type=int, default=2, help="histories at a time")
    return parser


if __name__ == "__main__":
    main()
