"""Names of symbols in hunk headers."""

from __future__ import annotations

import pytest

from pipeline.git.patches import parse_defined_name


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("def read(self, path):", "read"),
        ("class Store(Base):", "Store"),
        ("pub async fn spawn<F>(future: F) -> JoinHandle<F>", "spawn"),
        ("impl<T: Debug> Store<T> {", "Store"),
        ("impl<T> fmt::Display for Store<T> {", "Store"),
        ("fun <T> List<T>.second(): T", "second"),
        ("function M.read(path)", "read"),
        ("func (s *Store) Read(n int) int {", "Read"),
        ("func Read(n int) int {", "Read"),
        ("export const read = async (path) => {", "read"),
        ("static int read_file(const char *path)", "read_file"),
        ("public static void main(String[] args) {", "main"),
        ("sub read {", "read"),
        ("if (x) {", None),
        ("return read(x)", None),
        ("import os", None),
        ("", None),
    ],
)
def test_parse_defined_name(header: str, name: str | None) -> None:
    """A header names a symbol if it has a definition's keyword, a constant, or a name with parameters."""
    assert parse_defined_name(header) == name
