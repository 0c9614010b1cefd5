"""Languages and grammars of files."""

from __future__ import annotations

import pytest

from pipeline.file_classification import LANGUAGES_WITH_GRAMMAR, detect_language
from pipeline.syntax.grammars import load_grammar, load_grammar_for_path


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
def test_language_and_grammar_of_a_path(path: str, language: str | None, grammar: str | None) -> None:
    """Language and grammar follow from the file name. Declaration files have a language but no grammar."""
    loaded_grammar = load_grammar_for_path(path)
    assert (detect_language(path), loaded_grammar and loaded_grammar.name) == (language, grammar)


def test_grammars_are_cached() -> None:
    """Files of one language share the grammar and its compiled query."""
    assert load_grammar_for_path("a.py") is load_grammar_for_path("b/c.py")


def test_every_grammar_has_a_query() -> None:
    """The query of each grammar captures names, and functions or methods."""
    for name in sorted(LANGUAGES_WITH_GRAMMAR | {"tsx"}):
        query = load_grammar(name).query
        captures = {query.capture_name(index) for index in range(query.capture_count)}
        assert "name" in captures
        assert captures & {"function", "method"}


def test_typescript_and_tsx_share_a_query() -> None:
    """The queries of the two grammars have the same number of patterns."""
    [typescript, tsx] = [load_grammar(name).query for name in ("typescript", "tsx")]
    assert typescript.pattern_count == tsx.pattern_count
