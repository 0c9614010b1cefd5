"""Which language a file is in, and which grammar parses it."""

from __future__ import annotations

import pytest

from pipeline.syntax.grammars import grammar_of, language_of, load
from pipeline.syntax.languages import BY_NAME, BY_SUFFIX, PARSED, WITHOUT_SYMBOLS


@pytest.mark.parametrize(
    ("path", "language", "grammar"),
    [
        ("src/lib.rs", "rust", "rust"),
        ("a.py", "python", "python"),
        ("stubs/a.pyi", "python", "python"),
        ("A.java", "java", "java"),
        ("A.kt", "kotlin", "kotlin"),
        ("build.gradle.kts", "kotlin", "kotlin"),
        ("a.ts", "typescript", "typescript"),
        ("a.tsx", "typescript", "tsx"),
        ("a.js", "javascript", "javascript"),
        ("a.jsx", "javascript", "javascript"),
        ("a.mjs", "javascript", "javascript"),
        ("a.cjs", "javascript", "javascript"),
        ("LIB.RS", "rust", "rust"),
        ("types/a.d.ts", "typescript", None),
        ("types/a.d.mts", "typescript", None),
        ("main.go", "go", None),
        ("README.md", "markdown", None),
        ("docker/Dockerfile", "dockerfile", None),
        ("py", None, None),
        ("rs/.hidden", None, None),
        ("a.unheard-of", None, None),
    ],
)
def test_a_files_name_says_its_language_and_grammar(
    path: str, language: str | None, grammar: str | None
) -> None:
    """The name alone decides; declaration files have a language and no grammar."""
    found = grammar_of(path)
    assert (language_of(path), found and found.name) == (language, grammar)


def test_a_grammar_is_loaded_once() -> None:
    """Two files of one language share the grammar and its compiled query."""
    assert grammar_of("a.py") is grammar_of("b/c.py")


def test_every_parsed_language_has_a_query() -> None:
    """Each grammar loads with a query from the package that finds at least functions or methods."""
    for name in sorted(PARSED | {"tsx"}):
        query = load(name).query
        captures = {query.capture_name(index) for index in range(query.capture_count)}
        assert "name" in captures
        assert captures & {"function", "method"}


def test_typescript_and_tsx_find_the_same_symbols() -> None:
    """Their grammars differ in one expression only, so their queries are the same text."""
    [one, other] = [load(name).query for name in ("typescript", "tsx")]
    assert one.pattern_count == other.pattern_count


def test_the_tables_of_languages_agree() -> None:
    """What is parsed, and what has no symbols, are languages that some file name has."""
    known = {*BY_SUFFIX.values(), *BY_NAME.values()}
    assert known >= PARSED | WITHOUT_SYMBOLS
    assert not PARSED & WITHOUT_SYMBOLS
