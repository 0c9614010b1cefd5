"""Kind of a commit: feature, fix, removal and so on, by its message and the files that it changes.

The first of these rules that applies decides:

1. A type of Conventional Commits, as in `fix(parser)!: ...`, names the kind.
2. A subject that starts with `Revert` or `Back out` is a revert.
3. A commit has the kind of its files if they are all tests, all documentation, or all build and similar files.
4. The first words of the subject (`Add`, `Fix`, `Remove`, `Rename`, ...) name the kind.
5. A commit that closes an issue is a fix.
6. All other commits have the kind `other`.

`range_summary` gives merges the kind `merge`, without these rules.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pipeline.file_classification import FileRole, classify_role

FEATURE: Final = "feature"
FIX: Final = "fix"
PERFORMANCE: Final = "performance"
REMOVAL: Final = "removal"
REVERT: Final = "revert"
REFACTORING: Final = "refactoring"
DOCUMENTATION: Final = "documentation"
TESTS: Final = "tests"
BUILD: Final = "build"
MERGE: Final = "merge"
OTHER: Final = "other"

# Kinds of changes that users of the program may notice.
USER_FACING_KINDS: Final = (FEATURE, FIX, PERFORMANCE, REMOVAL, REVERT)
# All kinds, in the order of output.
KINDS: Final = (*USER_FACING_KINDS, REFACTORING, DOCUMENTATION, TESTS, BUILD, MERGE, OTHER)
# Plural names of the kinds, for headings and counts.
DISPLAY_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        FEATURE: "features",
        FIX: "fixes",
        PERFORMANCE: "performance",
        REMOVAL: "removals and deprecations",
        REVERT: "reverts",
        REFACTORING: "refactoring",
        DOCUMENTATION: "documentation",
        TESTS: "tests",
        BUILD: "build",
        MERGE: "merges",
        OTHER: "other",
    }
)

# Kind of each type of Conventional Commits.
_KIND_BY_TYPE: Final = {
    **dict.fromkeys(("feat", "feature"), FEATURE),
    **dict.fromkeys(("fix", "bugfix", "hotfix", "security"), FIX),
    **dict.fromkeys(("perf", "performance"), PERFORMANCE),
    **dict.fromkeys(("remove", "removed", "deprecate", "deprecated"), REMOVAL),
    "revert": REVERT,
    **dict.fromkeys(("refactor", "style", "cleanup"), REFACTORING),
    **dict.fromkeys(("docs", "doc", "documentation", "changelog"), DOCUMENTATION),
    **dict.fromkeys(("test", "tests"), TESTS),
    **dict.fromkeys(("build", "ci", "chore", "deps", "release", "cd"), BUILD),
}
# Scopes that mark a change as internal, so that users do not notice it, as in `fix(ci): ...`.
_INTERNAL_SCOPES: Final = frozenset(
    {"ci", "build", "deps", "deps-dev", "dev", "test", "tests", "docs", "doc"}
)
# Words of a subject that mark a change as internal.
_INTERNAL_WORDS: Final = re.compile(
    r"\b(?:mypy|pyright|flake8|pylint|ruff|eslint|clippy|rustfmt|lint\w*|tox|nox|pre-commit|ci|workflows?|typos?)\b",
    re.IGNORECASE,
)
# Subject of Conventional Commits: `type(scope)!: text`.
_CONVENTIONAL_SUBJECT: Final = re.compile(
    r"(?P<type>[\w./-]+)(?:\((?P<scope>[^()]*)\))?(?P<breaking>!)?:\s+(?P<text>\S.*)"
)
# Any other prefix, as in `regex: fix the parser` or `[core] Add x`. The group `name` matches a prefix in lower case,
# which names a part of the program even if it is also a verb, such as `sort: ...`.
_PREFIX: Final = re.compile(
    r"(?:\[[^\]]*\]|(?P<name>[a-z\d_./-]{1,30}(?:\([^()]*\))?!?:)|[\w./, -]{1,30}(?:\([^()]*\))?!?:)\s+(?=\S)"
)
# Footer of Conventional Commits that marks a breaking change.
_BREAKING_FOOTER: Final = re.compile(r"^BREAKING[ -]CHANGE: ", re.MULTILINE)
# Kind of a commit whose files all have one role. Files with the role `other` are build files and the like.
_KIND_BY_ROLE: Final[Mapping[FileRole, str]] = {"tests": TESTS, "prose": DOCUMENTATION, "other": BUILD}


def _compile_words(words: str) -> re.Pattern[str]:
    """Compile a pattern that matches any of the words, which spaces separate.

    In a word, `_` stands for whitespace, and `*` for any letters.
    """
    alternatives = (re.escape(word).replace("_", r"\s+").replace(r"\*", r"\w*") for word in words.split())
    return re.compile(rf"(?:{'|'.join(alternatives)})(?![\w-])", re.IGNORECASE)


# Kinds, each with the first words of a subject that name it. The first entry that matches decides.
_FIRST_WORDS: Final = (
    (REVERT, _compile_words("revert* back_out")),
    (
        REFACTORING,
        _compile_words(
            "refactor* renam* move moves moved moving clean* simplif* reformat* format* reorgani*"
            " restructur* tidy* lint* sort* extract* inlin* rewr* styl* split* *_unused *_redundant"
            " *_unnecessary *_unneeded *_dead *_obsolete *_duplicate* *_trailing *_stray"
        ),
    ),
    (DOCUMENTATION, _compile_words("document* docs doc docstring* readme changelog typo* fix*_typo*")),
    (TESTS, _compile_words("test* fix*_test* fix*_flaky add*_test* skip*_test*")),
    (
        BUILD,
        _compile_words(
            "bump* upgrad* pin pins pinned pinning releas* prepar* version* ci start_version updat*_dep*"
            " updat*_requirement* fix*_ci fix*_build* set_version"
        ),
    ),
    (PERFORMANCE, _compile_words("optimi* speed* accelerat* perf performance improve*_performance faster")),
    (
        FIX,
        _compile_words(
            "fix fixes fixed fixing fixup* bugfix* hotfix* correct* prevent* avoid* repair* resolv* restor* handl*"
            " ensur* don't do_not no_longer work_around"
        ),
    ),
    (REMOVAL, _compile_words("remov* drop* deprecat* delet* disallow*")),
    (
        FEATURE,
        _compile_words(
            "add adds added adding allow* support* introduc* implement* enabl* accept* expos* provid* new"
            " creat* let lets make_it_possible"
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class CommitKind:
    """Kind of a commit. `name`: one of KINDS. `title`: subject without a type of Conventional Commits.

    `is_user_facing`: users of the program may notice the change.
    """

    name: str
    title: str
    is_breaking: bool = False
    is_user_facing: bool = False


def classify_commit(subject: str, body: str, paths: Collection[str], *, closes_issue: bool) -> CommitKind:
    """Return the kind of a commit. `paths`: files that it changes; empty if they are unknown."""
    roles = {classify_role(path) for path in paths}
    may_change_program = not roles or bool(roles - {"tests", "prose"})
    is_breaking = _BREAKING_FOOTER.search(body) is not None
    match = _CONVENTIONAL_SUBJECT.match(subject)
    if match:
        is_breaking = is_breaking or match["breaking"] is not None
    if match and (kind := _KIND_BY_TYPE.get(match["type"].lower())):
        scope = (match["scope"] or "").strip()
        is_user_facing = (
            kind in USER_FACING_KINDS and may_change_program and scope.lower() not in _INTERNAL_SCOPES
        )
        title = f"{scope}: {match['text']}" if scope else match["text"]
        return CommitKind(kind, title, is_breaking, is_user_facing or is_breaking)
    kind = _classify_unconventional(subject, roles, closes_issue=closes_issue)
    is_user_facing = kind in USER_FACING_KINDS and may_change_program and not _INTERNAL_WORDS.search(subject)
    return CommitKind(kind, subject, is_breaking, is_user_facing or is_breaking)


def _classify_unconventional(subject: str, roles: Collection[FileRole], *, closes_issue: bool) -> str:
    """Return the kind of a commit without a type of Conventional Commits, by rules 2 to 6 of this module."""
    kind = _classify_words(subject)
    if kind == REVERT:
        return kind
    role = next(iter(roles)) if len(roles) == 1 else None
    if role and role in _KIND_BY_ROLE:
        return _KIND_BY_ROLE[role]
    return kind or (FIX if closes_issue else OTHER)


def _classify_words(subject: str) -> str | None:
    """Return the kind that the subject names with its first words, or with the first words after a prefix; else None.

    A lower-case prefix names a part of the program, so the text after the prefix is tried first.
    """
    texts = [subject]
    if prefix := _PREFIX.match(subject):
        text_after_prefix = subject[prefix.end() :]
        texts = [text_after_prefix, subject] if prefix["name"] else [subject, text_after_prefix]
    for text in texts:
        for kind, words in _FIRST_WORDS:
            if words.match(text.lstrip("\"'`*- ")):
                return kind
    return None


def count_kinds(kinds: Iterable[str]) -> dict[str, int]:
    """Return the number of occurrences of each kind that occurs, in the order of output."""
    counts = Counter(kinds)
    return {kind: counts[kind] for kind in KINDS if counts[kind]}
