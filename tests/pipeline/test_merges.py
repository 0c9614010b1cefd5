"""Which merges wrote files of their own, from their trees alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from pipeline.git.merges import TREE, Entries, wrote_files

Folder: TypeAlias = "Mapping[str, str | Folder]"

contents = st.sampled_from(["1", "2", "3"])
folders = st.recursive(
    st.dictionaries(st.sampled_from("xy"), contents, min_size=1, max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("xyde"), contents | inner, min_size=1, max_size=4),
    max_leaves=6,
)


class Trees:
    """Folders as git keeps them: each by a name that says its content."""

    def __init__(self) -> None:
        self.kept: dict[bytes, Folder] = {}

    def entries(self, folder: Folder) -> Entries:
        return {name.encode(): self.entry(inside) for name, inside in folder.items()}

    def entry(self, inside: str | Folder) -> tuple[bytes, bytes]:
        if isinstance(inside, str):
            return b"100644", inside.encode()
        named = repr(sorted(flat(inside).items())).encode()
        self.kept[named] = inside
        return TREE, named

    def read(self, named: bytes) -> Entries:
        return self.entries(self.kept[named])


def flat(folder: Folder, under: str = "") -> dict[str, str]:
    """Path -> content of every file."""
    found: dict[str, str] = {}
    for name, inside in folder.items():
        found |= {under + name: inside} if isinstance(inside, str) else flat(inside, f"{under}{name}/")
    return found


@given(folders, st.lists(folders, min_size=2, max_size=3))
def test_a_merge_that_wrote_a_file_is_never_missed(result: Folder, parents: list[Folder]) -> None:
    """Where files and folders keep their names apart the answer is exact; else a doubt counts as yes."""
    trees = Trees()
    answer = wrote_files(trees.entries(result), [trees.entries(parent) for parent in parents], trees.read)
    own, theirs = flat(result), [flat(parent) for parent in parents]
    paths = {path for files in (own, *theirs) for path in files}
    expected = any(all(own.get(path) != files.get(path) for files in theirs) for path in paths)
    mixed = any(f"{path}/" in other[: len(path) + 1] for path in paths for other in paths)
    assert answer == expected or (mixed and answer)
