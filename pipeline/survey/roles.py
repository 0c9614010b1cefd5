"""What a file is for: the program itself, its tests, its documentation, or what goes with it; by its path, pure."""

from __future__ import annotations

import re
from typing import Final, Literal

from pipeline.source.languages import language_of
from pipeline.survey.kinds import kind_of, machine_named

Role = Literal["source", "tests", "prose", "other"]

# Tests say how code is used: their own folder is no data, though a folder of inputs in it may be.
TESTS: Final = frozenset({"test", "tests", "testing", "spec", "specs", "__tests__", "t"})
# Beside these, by the languages' customs: what tests stand on, and what only measures.
_TESTS_TOO: Final = frozenset(
    {
        "testdata",
        "testfixtures",
        "test-fixtures",
        "__mocks__",
        "__fixtures__",
        "e2e",
        "bench",
        "benches",
        "benchmark",
        "benchmarks",
    }
)
# Folders named for whose tests they are: `commonTest` and `androidInstrumentedTest` of Kotlin, `Shop.Tests` of C#,
# `core-tests` of builds of many parts. In small letters and without a sign it is another word: `latest`, `contest`.
_TESTS_OF: Final = re.compile(r".*(?:[a-z0-9]Tests?|[._-][Tt]ests?)")
# `test_x.py`, `x_test.go`, `x-test.js`, `FooTest.java`, `FooTests.kt`. A `PodSpec.java` and a `pod_spec.py` describe
# pods: only where tests are called so by custom it is one, `x.spec.ts` and `x_spec.rb`.
_TEST_FILE: Final = re.compile(
    r"(?:tests?_.*|(?:.*[._-])?(?:tests?|bench)|.*[a-z0-9](?:Tests?|TestCase|IT)|conftest)\.\w+"
    r"|.*\.spec\.\w+|.*[_-]spec\.(?:rb|lua|cr|[cm]?[jt]sx?)"
)
_DOCUMENTATION: Final = frozenset({"docs", "doc", "documentation"})
# Programs that build, run checks, or only say the version: written in the language, but no part of the program.
_BUILD_LANGUAGES: Final = frozenset({"make", "cmake", "nix"})
_BUILD_FILE: Final = re.compile(
    r"setup\.py|noxfile\.py|_*version_*\.\w+|build\.rs|gemfile|rakefile|jenkinsfile|.*\.gradle(?:\.kts)?"
    r"|(?:gulp|grunt)file\.\w+|[\w.-]+\.config\.\w+|package\.swift"
)


def role_of(path: str) -> Role:
    """What a file of this path is for."""
    if is_test(path):
        return "tests"
    if machine_named(path):
        return "other"
    kind = kind_of(path)
    if kind == "prose" or (kind == "code" and _DOCUMENTATION.intersection(_folders(path.lower()))):
        return "prose"
    return "source" if kind == "code" and not _builds(path) else "other"


def is_test(path: str) -> bool:
    """Whether it is a test, or something that only tests stand on, as far as names tell."""
    folders, name = _folders(path), path.rpartition("/")[2]
    if any(folder.lower() in TESTS | _TESTS_TOO or _TESTS_OF.fullmatch(folder) for folder in folders):
        return True
    return kind_of(path) == "code" and _TEST_FILE.fullmatch(name) is not None


def _builds(path: str) -> bool:
    name = path.rpartition("/")[2].lower()
    return language_of(path) in _BUILD_LANGUAGES or _BUILD_FILE.fullmatch(name) is not None


def _folders(path: str) -> list[str]:
    return path.split("/")[:-1]
