"""The protocols: what each asks of a history, and what its index may know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.git.repository import open_repository
from pipeline.ignore import IgnoreRules
from tests.eval import body_sentences, changelog, handwritten
from tests.eval.commits import Told, told
from tests.eval.histories import Prepared, Variant
from tests.eval.near_duplicates import Twins, patch_ids
from tests.eval.question import Question
from tests.eval.sampling import drawn, names_a_file, tellable


@dataclass(frozen=True, slots=True)
class Draw:
    """How many questions at most, where there are more than that, and which."""

    samples: int
    seed: int


@dataclass(frozen=True, slots=True)
class Material:
    """What questions are made of: a history's commits, oldest first, and which of them count as one."""

    prepared: Prepared
    commits: Sequence[Told]
    twins: Twins

    @classmethod
    def of(cls, prepared: Prepared) -> Material:
        commits = tuple(told(prepared.told))
        return cls(prepared, commits, Twins.of(commits, patch_ids(prepared.told)))

    def counting(self) -> Callable[[str], str]:
        """An indexed commit's sha -> the sha, in the authors' history, of the commit that it counts as."""
        originals = {new: old for old, new in self.prepared.shas.items()}
        return lambda sha: self.twins.one(originals.get(sha, sha))

    def tellable(self) -> list[Told]:
        """The commits worth asking for."""
        ignored = IgnoreRules.of(open_repository(self.prepared.path)).ignored
        return tellable(self.commits, self.twins, lambda path: not ignored(path))


@dataclass(frozen=True, slots=True)
class Protocol:
    """What the index may know, how questions are made (in original shas), and whether their answers have grades.

    `head` is the commit of a clone that is asked.
    """

    variant: Variant
    questions: Callable[[Material, Draw], Sequence[Question]]
    head: Callable[[Path], str] = lambda _: "HEAD"
    graded: bool = False

    @property
    def messages(self) -> bool:
        """Whether messages are there to be found."""
        return self.variant is not Variant.SCRUBBED


def by_changelog(material: Material, _: Draw) -> Sequence[Question]:
    """News fragments, answered by the commits that brought them; all of them, in every draw."""
    return changelog.questions(material.prepared.told)


def by_subject(material: Material, draw: Draw) -> Sequence[Question]:
    """Subjects, answered by their commits."""
    asked = [
        Question.answered(changelog.without_issues(commit.subject), [commit.sha])
        for commit in material.tellable()
        if not names_a_file(commit.subject, commit.paths)
    ]
    return drawn(asked, draw.samples, draw.seed)


def by_body(material: Material, draw: Draw) -> Sequence[Question]:
    """Sentences of bodies, answered by the commits that say them."""
    asked: dict[str, set[str]] = {}
    for commit in material.tellable():
        sentence = body_sentences.sentence_of(commit.subject, commit.body)
        if sentence:
            asked.setdefault(sentence, set()).add(commit.sha)
    return drawn([Question.answered(*said) for said in asked.items()], draw.samples, draw.seed)


def by_hand(material: Material, _: Draw, folder: Path | None = None) -> Sequence[Question]:
    """Questions somebody wrote for this history; all of them, in every draw."""
    sheet = handwritten.sheet_of(material.prepared.told, folder)
    return [written.question for written in sheet.questions] if sheet else []


def written_at(clone: Path, folder: Path | None = None) -> str:
    """The commit that a clone's written questions were answered at."""
    sheet = handwritten.sheet_of(clone, folder)
    return sheet.head if sheet else "HEAD"


PROTOCOLS: Final = {
    "changelog": Protocol(Variant.UNANNOUNCED, by_changelog),
    "scrubbed": Protocol(Variant.SCRUBBED, by_subject),
    "body": Protocol(Variant.WHOLE, by_body),
    "questions": Protocol(Variant.WHOLE, by_hand, written_at, graded=True),
}
