"""Queries from news fragments, for projects that add one fragment file for each change.

The query is the text of a fragment without markup and issue numbers. The relevant commits are those that add the
fragment and change source code; there are several if the fragment was removed and added again. Fragments and
changelogs are excluded from the index, otherwise every query would find its own text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from pipeline.syntax.grammars import load_grammar_for_path
from tests.bench.programs import run_git
from tests.eval.judgments import JudgedQuery

# Patterns of fragments and changelogs, in the syntax of `.lineageignore`.
IGNORE_PATTERNS: Final = (
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
# Shorter texts ("Typos.", "Internal.") do not identify a change.
MIN_WORDS: Final = 3

_FRAGMENT: Final = re.compile(
    r"(?:changelog\.d|newsfragments|changelog|docs/changelog|news|CHANGES)/"
    r"[^/_.][^/]*\.[a-z]+(?:\.\d+)?\.(?:md|rst|txt)"
    r"|src/\w+/newsfragments/\d+\.[a-z]+"
    r"|\.changeset/(?!README)[^/_.]+\.md"  # changesets have random names
)
_ISSUE_ROLE: Final = re.compile(r":(?:issue|gh|pr|pull|user|bug):`[^`]*`", re.IGNORECASE)
_ROLE: Final = re.compile(r":[a-z][\w:+.-]*:(?=`)")
_IMAGE_OR_LINK: Final = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
_RST_LINK: Final = re.compile(r"`([^`<]+?)\s*<[^`>]+>`_{0,2}")
_URL: Final = re.compile(r"<?\bhttps?://[^\s>)\]]+>?")
_ISSUE: Final = re.compile(r"(?:\b(?:issues?|pull request|PR|GH|bug)[\s-]*)?#\d+\b|\bGH-\d+\b", re.IGNORECASE)
_CODE_DIRECTIVE: Final = re.compile(r"^\s*\.\. (?:code|code-block|sourcecode)::.*$", re.MULTILINE)
_DIRECTIVE: Final = re.compile(r"^\s*\.\. [\w-]+::", re.MULTILINE)
_FENCE: Final = re.compile(r"^\s*```.*$", re.MULTILINE)
_EMPHASIS: Final = re.compile(r"(?<!\w)_([^\W_](?:[^_]*[^\W_])?)_(?!\w)")
_MARKUP: Final = re.compile(r"`+(?:_{1,2}(?!\w))?|\*+|^\s*(?:[-+>]|#+)\s+", re.MULTILINE)
# A changeset begins with the packages and the kind of release.
_FRONT_MATTER: Final = re.compile(r"\A---\n.*?^---$", re.MULTILINE | re.DOTALL)
_BYLINE: Final = re.compile(r"\s-+\s+by\b[^\n]*\Z")
_EMPTY_BRACKETS: Final = re.compile(r"(?:\s|^)(?:\(\s*\)|\[\s*\])")


@dataclass(frozen=True, slots=True)
class FileChanges:
    """Paths that a commit added, deleted, and changed in any way."""

    sha: str
    added: tuple[str, ...]
    deleted: tuple[str, ...]
    changed: tuple[str, ...]

    @property
    def fragments(self) -> list[str]:
        """News fragments that the commit added, except those that only got another file extension."""
        deleted = {PurePosixPath(path).stem for path in self.deleted}
        return [path for path in self.added if is_fragment(path) and PurePosixPath(path).stem not in deleted]


def create_queries(repository: Path) -> list[JudgedQuery]:
    """Return a query for each distinct fragment text, oldest first."""
    relevant: dict[str, set[str]] = {}
    for changes in read_changes(repository):
        if any(map(is_source, changes.changed)):
            for path in changes.fragments:
                text = clean_text(run_git(repository, "show", f"{changes.sha}:{path}"))
                relevant.setdefault(text, set()).add(changes.sha)
    return [
        JudgedQuery.with_relevant(text, shas)
        for text, shas in relevant.items()
        if len(text.split()) >= MIN_WORDS
    ]


def is_fragment(path: str) -> bool:
    """Return whether a path is a news fragment (`<folder>/<issue>.<kind>.<extension>`) or a changeset."""
    return _FRAGMENT.fullmatch(path) is not None


def is_source(path: str) -> bool:
    """Return whether the index parses the file as source code."""
    return load_grammar_for_path(path) is not None


def clean_text(text: str) -> str:
    """Remove markup, URLs, issue numbers, front matter and the author's byline."""
    text = _CODE_DIRECTIVE.sub("", _BYLINE.sub("", _FRONT_MATTER.sub("", text).rstrip()))
    for pattern, replacement in (
        (_FENCE, ""),
        (_DIRECTIVE, ""),
        (_ISSUE_ROLE, ""),
        (_ROLE, ""),
        (_IMAGE_OR_LINK, r"\1"),
        (_RST_LINK, r"\1"),
        (_URL, ""),
        (_ISSUE, ""),
        (_EMPHASIS, r"\1"),
        (_MARKUP, ""),
        (_EMPTY_BRACKETS, ""),
    ):
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def strip_issue_numbers(text: str) -> str:
    """Remove issue numbers, which nobody types in a query."""
    return " ".join(_EMPTY_BRACKETS.sub("", _ISSUE.sub("", text)).split())


def read_changes(repository: Path) -> Iterator[FileChanges]:
    """Yield the changed files of every commit that HEAD reaches, oldest first. A renamed file is not added.

    Merges and root commits are skipped: the root of a shallow clone adds all files of the project.
    """
    log = ("log", "--reverse", "--no-merges", "--min-parents=1", "--find-renames", "--name-status")
    for entry in run_git(repository, "-c", "core.quotePath=off", *log, "--format=%x00%H", "HEAD").split("\0")[
        1:
    ]:
        sha, *lines = entry.split("\n")
        yield _parse_changes(sha, (line.split("\t") for line in lines if line))


def append_ignore_rules(clone: Path) -> None:
    """Append `IGNORE_PATTERNS` to the `.lineageignore` of a working copy."""
    rules = clone / ".lineageignore"
    existing = rules.read_text(encoding="utf-8") if rules.exists() else ""
    rules.write_text("\n".join((existing, *IGNORE_PATTERNS, "")), encoding="utf-8")


def _parse_changes(sha: str, statuses: Iterable[list[str]]) -> FileChanges:
    rows = [(status, paths[-1]) for status, *paths in statuses]

    def list_paths(letter: str) -> tuple[str, ...]:
        return tuple(path for status, path in rows if status == letter)

    return FileChanges(sha, list_paths("A"), list_paths("D"), tuple(path for _, path in rows))
