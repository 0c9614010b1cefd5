"""Questions with known answers, taken from projects that keep one news fragment per change.

The commit that adds a fragment and touches source code is the answer; the fragment's text, markup and issue
numbers removed, is the question. A text that several commits added (taken back, and added again) has several
answers. Fragments and changelogs are left out of the index, or every question would find its own text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from pipeline.syntax.grammars import grammar_of
from tests.bench.programs import git
from tests.eval.question import Question

# What git must not know of the commit that answers: in the syntax of `.lineageignore`, for the working copy.
LEFT_OUT: Final = (
    "changelog.d/",
    "newsfragments/",
    "changelog/",
    "news/",
    "CHANGES/",
    ".changeset/",
    "CHANGELOG*",
    "CHANGES.*",
    "changelog.*",
    "HISTORY*",
    "history.rst",
    "NEWS*",
)
# Fewer words than this ("Typos.", "Internal.") name no change that anybody could find.
FEWEST_WORDS: Final = 3

_FRAGMENT: Final = re.compile(
    r"(?:changelog\.d|newsfragments|changelog|docs/changelog|news|CHANGES)/"
    r"[^/_.][^/]*\.[a-z]+(?:\.\d+)?\.(?:md|rst|txt)"
    r"|src/\w+/newsfragments/\d+\.[a-z]+"
    r"|\.changeset/(?!README)[^/_.]+\.md"  # named at random
)
_ISSUE_ROLE: Final = re.compile(r":(?:issue|gh|pr|pull|user|bug):`[^`]*`", re.IGNORECASE)
_ROLE: Final = re.compile(r":[a-z][\w:+.-]*:(?=`)")
_IMAGE_OR_LINK: Final = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
_TITLED: Final = re.compile(r"`([^`<]+?)\s*<[^`>]+>`_{0,2}")
_ADDRESS: Final = re.compile(r"<?\bhttps?://[^\s>)\]]+>?")
_ISSUE: Final = re.compile(r"(?:\b(?:issues?|pull request|PR|GH|bug)[\s-]*)?#\d+\b|\bGH-\d+\b", re.IGNORECASE)
_CODE_DIRECTIVE: Final = re.compile(r"^\s*\.\. (?:code|code-block|sourcecode)::.*$", re.MULTILINE)
_DIRECTIVE: Final = re.compile(r"^\s*\.\. [\w-]+::", re.MULTILINE)
_FENCE: Final = re.compile(r"^\s*```.*$", re.MULTILINE)
_EMPHASIS: Final = re.compile(r"(?<!\w)_([^\W_](?:[^_]*[^\W_])?)_(?!\w)")
_MARKS: Final = re.compile(r"`+(?:_{1,2}(?!\w))?|\*+|^\s*(?:[-+>]|#+)\s+", re.MULTILINE)
# A changeset says first which packages get which version.
_FRONT_MATTER: Final = re.compile(r"\A---\n.*?^---$", re.MULTILINE | re.DOTALL)
_BYLINE: Final = re.compile(r"\s-+\s+by\b[^\n]*\Z")
_LEFT_EMPTY: Final = re.compile(r"(?:\s|^)(?:\(\s*\)|\[\s*\])")


@dataclass(frozen=True, slots=True)
class Changed:
    """One commit's changed files: paths it added, paths it deleted, and all paths it touched."""

    sha: str
    added: tuple[str, ...]
    deleted: tuple[str, ...]
    touched: tuple[str, ...]

    @property
    def fragments(self) -> list[str]:
        """Fragments it added, but those that only got another extension, their markup translated."""
        gone = {PurePosixPath(path).stem for path in self.deleted}
        return [path for path in self.added if is_fragment(path) and PurePosixPath(path).stem not in gone]


def questions(repository: Path) -> list[Question]:
    """The questions a history answers, oldest first."""
    answers: dict[str, set[str]] = {}
    for changed in commits(repository):
        if any(map(is_source, changed.touched)):
            for path in changed.fragments:
                text = question_of(git(repository, "show", f"{changed.sha}:{path}"))
                answers.setdefault(text, set()).add(changed.sha)
    return [
        Question.answered(text, shas) for text, shas in answers.items() if len(text.split()) >= FEWEST_WORDS
    ]


def is_fragment(path: str) -> bool:
    """Whether a path is a news fragment: `<folder>/<issue>.<kind>.<extension>`, or a changeset."""
    return _FRAGMENT.fullmatch(path) is not None


def is_source(path: str) -> bool:
    """Whether a path holds source code that the index parses."""
    return grammar_of(path) is not None


def question_of(fragment: str) -> str:
    """A fragment's text as a person would type it: no markup, no addresses, no issue numbers."""
    text = _CODE_DIRECTIVE.sub("", _BYLINE.sub("", _FRONT_MATTER.sub("", fragment).rstrip()))
    for pattern, instead in (
        (_FENCE, ""),
        (_DIRECTIVE, ""),
        (_ISSUE_ROLE, ""),
        (_ROLE, ""),
        (_IMAGE_OR_LINK, r"\1"),
        (_TITLED, r"\1"),
        (_ADDRESS, ""),
        (_ISSUE, ""),
        (_EMPHASIS, r"\1"),
        (_MARKS, ""),
        (_LEFT_EMPTY, ""),
    ):
        text = pattern.sub(instead, text)
    return " ".join(text.split())


def without_issues(text: str) -> str:
    """A message's text without the numbers of issues, which nobody asks by."""
    return " ".join(_LEFT_EMPTY.sub("", _ISSUE.sub("", text)).split())


def commits(repository: Path) -> Iterator[Changed]:
    """Every commit HEAD reaches, oldest first, with what it changed; renamed files are not added.

    But merges, and commits without a parent: one brings a project along, or, where a clone is cut, all that was there.
    """
    log = ("log", "--reverse", "--no-merges", "--min-parents=1", "--find-renames", "--name-status")
    for entry in git(repository, "-c", "core.quotePath=off", *log, "--format=%x00%H", "HEAD").split("\0")[1:]:
        sha, *lines = entry.split("\n")
        yield _changed(sha, (line.split("\t") for line in lines if line))


def leave_out(clone: Path) -> None:
    """Write the ignore rules into a working copy, after those it has."""
    rules = clone / ".lineageignore"
    own = rules.read_text(encoding="utf-8") if rules.exists() else ""
    rules.write_text("\n".join((own, *LEFT_OUT, "")), encoding="utf-8")


def _changed(sha: str, statuses: Iterable[list[str]]) -> Changed:
    rows = [(status, paths[-1]) for status, *paths in statuses]

    def of(kind: str) -> tuple[str, ...]:
        return tuple(path for status, path in rows if status == kind)

    return Changed(sha, of("A"), of("D"), tuple(path for _, path in rows))
