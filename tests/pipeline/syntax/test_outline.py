"""Chunks of files: token budget, and the names of the symbols that share a chunk."""

from __future__ import annotations

from tests.pipeline.syntax.test_symbols import parse_source

FUNCTION = "def {name}():\n    return '{filler}'\n"


def test_siblings_are_merged_within_the_budget() -> None:
    """Three functions of 219 tokens give chunks of two and one; sibling names are those of the chunk."""
    source = "".join(FUNCTION.format(name=name, filler="x" * 850) for name in ("one", "two", "three"))
    outline = parse_source("python", source)
    assert [(c.start_line, c.end_line, c.tokens) for c in outline.chunks] == [(1, 4, 437), (5, 6, 219)]
    assert [(entry.symbol.name, entry.chunk_index, entry.siblings) for entry in outline.symbols] == [
        ("one", 0, ("two",)),
        ("two", 0, ("one",)),
        ("three", 1, ()),
    ]


def test_node_over_the_budget() -> None:
    """A function of 600 tokens is a chunk by itself."""
    fillers = {"one": "x", "two": "x" * 2400, "three": "x"}
    source = "".join(FUNCTION.format(name=name, filler=filler) for name, filler in fillers.items())
    assert [(c.start_line, c.end_line) for c in parse_source("python", source).chunks] == [
        (1, 2),
        (3, 4),
        (5, 6),
    ]


def test_class_over_the_budget_is_split() -> None:
    """Methods of a split class are merged with each other, and its first line with the first methods."""
    methods = "".join(f"    def m{number}(self):\n        return '{'x' * 850}'\n" for number in range(4))
    outline = parse_source("python", f"def before(): ...\nclass C:\n{methods}def after(): ...\n")
    assert [(entry.symbol.name, entry.chunk_index, entry.siblings) for entry in outline.symbols] == [
        ("before", 0, ()),
        ("C", 1, ("m0", "m1")),
        ("m0", 1, ("C", "m1")),
        ("m1", 1, ("C", "m0")),
        ("m2", 2, ("m3",)),
        ("m3", 2, ("m2",)),
        ("after", 3, ()),
    ]


def test_budget_counts_characters() -> None:
    """A file of 1,212 characters, most of them of three bytes, is one chunk of 303 tokens."""
    source = f"a = '{'線' * 1200}'\nb = 1\n"
    assert [chunk.tokens for chunk in parse_source("python", source).chunks] == [303]


def test_attributes_stay_with_their_function() -> None:
    """No chunk ends between a Rust attribute and its function."""
    filler = f'fn one() {{ "{"x" * 1900}" }}\n'
    outline = parse_source("rust", f'{filler}#[test]\nfn two() {{ "{"y" * 500}" }}\n')
    assert [(c.start_line, c.end_line) for c in outline.chunks] == [(1, 1), (2, 3)]
