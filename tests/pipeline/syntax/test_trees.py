"""Incremental parsing: the tree of a version equals the tree of a full parse, whatever is cached."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.extract import ExtractTask, extract_batches
from pipeline.file_classification import LANGUAGES_WITH_GRAMMAR
from pipeline.git.patches import PatchPart
from pipeline.git.repository import open_repository
from pipeline.hunks import Hunk, extract_hunks
from pipeline.ignore import IgnoreRules
from pipeline.syntax.grammars import Node, load_grammar
from pipeline.syntax.touched_symbols import TouchedSymbolFinder
from pipeline.syntax.trees import (
    MAX_LINE_BYTES,
    SMALL_EDIT_BYTES,
    FileContent,
    PreviousVersion,
    Version,
    VersionCache,
    compute_edits,
    extend_edits_back,
    is_within_size_limits,
    parse_incrementally,
    parse_version,
)
from tests.repos import Repo

# Lines of source by grammar, from which random files are built.
BLOCKS = {
    "python": [
        "class A:\n    x = 1\n",
        "    def m(self):\n        return 1\n",
        "@d\ndef f():\n    pass\n",
        "# c\n",
        "\n",
    ],
    "rust": [
        "struct S;\n",
        "impl S {\n",
        "    fn m(&self) {}\n",
        "}\n",
        "#[a]\nfn f() {\n    1\n}\n",
        "// c\n",
        "\n",
    ],
    "java": ["class A {\n", "    int m() {\n        return 1;\n    }\n", "}\n", "@B\n", "// c\n", "\n"],
    "kotlin": [
        "class A {\n",
        "    fun m() = 1\n",
        "}\n",
        "val x = 1 // c\n",
        "fun f() {\n}\n",
        "// c\n",
        "\n",
    ],
    "javascript": [
        "class A {\n",
        "  m() {}\n",
        "}\n",
        "const f = () => 1 // c\n",
        "let x = 1\n",
        "// c\n",
        "\n",
    ],
}


def build_part(old_start: int, old: Sequence[str], new_start: int, new: Sequence[str]) -> PatchPart:
    """Build the part of a diff that replaces lines, without context. `old_start` and `new_start` count from 0."""
    return PatchPart(
        old_start=old_start + bool(old),
        old_count=len(old),
        new_start=new_start + bool(new),
        new_count=len(new),
        section_heading="",
        added=tuple(range(new_start + 1, new_start + 1 + len(new))),
        removed=tuple(range(old_start + 1, old_start + 1 + len(old))),
    )


def list_nodes(root: Node) -> list[tuple[int, str, int, int]]:
    """Return depth, type, start and end byte of every node."""
    nodes, stack = [], [(root, 0)]
    while stack:
        node, depth = stack.pop()
        nodes.append((depth, node.type, node.start_byte, node.end_byte))
        stack += [(child, depth + 1) for child in reversed(node.children)]
    return nodes


class RecordingSource:
    """Content source that records the shas of the blobs that were read, in order."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self.contents = contents
        self.requested_shas: list[str] = []

    def read_blob(self, sha: str) -> bytes:
        self.requested_shas.append(sha)
        return self.contents[sha]

    def diff_blobs(self, old: str, new: str) -> Sequence[PatchPart]:
        old_lines, new_lines = (self.contents[sha].decode().splitlines(keepends=True) for sha in (old, new))
        codes = SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_opcodes()
        return [
            build_part(a, old_lines[a:b], c, new_lines[c:d]) for tag, a, b, c, d in codes if tag != "equal"
        ]


# With SMALL_EDIT_BYTES = 0 no edit is small, so all edits have the limit.
@pytest.fixture(params=[0, SMALL_EDIT_BYTES], ids=["limited", "unlimited"])
def step_limit(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a test with and without the limit on parser steps after small edits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.syntax.trees.SMALL_EDIT_BYTES", request.param)
        yield


@pytest.mark.usefixtures("step_limit")
@pytest.mark.parametrize("grammar", sorted(BLOCKS))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_incremental_parses_equal_full_parses(grammar: str, data: st.DataObject) -> None:
    """After each of several random edits, the tree is that of a full parse."""
    block_lists = st.lists(st.sampled_from(BLOCKS[grammar]), max_size=12)
    cache, loaded_grammar = VersionCache(), load_grammar(grammar)
    content = "".join(data.draw(block_lists)).splitlines(keepends=True)
    texts = {"0": "".join(content).encode()}
    source = RecordingSource(texts)
    cache.get("a", "0", loaded_grammar, source)
    alternating_cache = VersionCache()
    for number in range(1, 6):
        start = data.draw(st.integers(0, len(content)))
        end = data.draw(st.integers(start, len(content)))
        new_lines = "".join(data.draw(block_lists)).splitlines(keepends=True)
        previous = PreviousVersion(
            "a", str(number - 1), loaded_grammar, [build_part(start, content[start:end], start, new_lines)]
        )
        content = content[:start] + new_lines + content[end:]
        texts[str(number)] = "".join(content).encode()
        incremental_version = cache.get_successor(previous, "a", str(number), loaded_grammar, source)
        full_version = parse_version(texts[str(number)], loaded_grammar)
        assert incremental_version is not None
        assert full_version is not None
        assert list_nodes(incremental_version.tree.root_node) == list_nodes(full_version.tree.root_node)
        if number % 2:  # as in a worker that gets every other batch
            version = alternating_cache.get("a", str(number), loaded_grammar, source)
            assert version is not None
            assert list_nodes(version.tree.root_node) == list_nodes(full_version.tree.root_node)


def test_wrong_parts_cause_a_full_parse() -> None:
    """If the parts do not lead to the new content, the file is parsed in full."""
    old, new = b"a = 1\nb = 2\nc = 3\n", b"a = 1\nx = 2\ny = 3\n"
    wrong_parts = [build_part(1, ["b = 2\n"], 1, ["x = 2\n"])]
    assert compute_edits(FileContent(old), FileContent(new), wrong_parts) is None
    version = parse_version(old, load_grammar("python"))
    assert version is not None
    new_version = parse_incrementally(version, new, wrong_parts)
    assert new_version is not None
    assert new_version.tree.root_node.end_byte == len(new)


@given(
    old=st.lists(st.sampled_from(["a\n", "b\n", "\n", "c c\n"]), max_size=8),
    new=st.lists(st.sampled_from(["a\n", "b\n", "\n", "c c\n"]), max_size=8),
    tails=st.tuples(st.sampled_from(["", "t"]), st.sampled_from(["", "t"])),
)
def test_edits_transform_the_old_content(old: list[str], new: list[str], tails: tuple[str, str]) -> None:
    """Each edit turns the old content into the new one, and its row and column positions are correct."""
    old_lines = ["x\n", *old, *([tails[0]] if tails[0] else [])]
    new_lines = ["x\n", *new, *([tails[1]] if tails[1] else [])]
    old_bytes, new_bytes = "".join(old_lines).encode(), "".join(new_lines).encode()
    edits = compute_edits(
        FileContent(old_bytes), FileContent(new_bytes), [build_part(1, old_lines[1:], 1, new_lines[1:])]
    )
    assert edits is not None
    for edit in (*edits, *extend_edits_back(edits, FileContent(old_bytes), FileContent(new_bytes))):
        inserted = new_bytes[edit.new_start.byte : edit.new_end.byte]
        assert old_bytes[: edit.old_start.byte] + inserted + old_bytes[edit.old_end.byte :] == new_bytes
        positions = (
            (old_bytes, edit.old_start),
            (old_bytes, edit.old_end),
            (new_bytes, edit.new_start),
            (new_bytes, edit.new_end),
        )
        for content, position in positions:
            preceding_bytes = content[: position.byte]
            assert position.row_column == (
                preceding_bytes.count(b"\n"),
                len(preceding_bytes) - (preceding_bytes.rfind(b"\n") + 1),
            )


def test_unchanged_definitions_are_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An incremental parse of one added method succeeds with a limit on steps that is too low for a full parse."""
    methods = [f"    def m{number}(self):\n        return {number}\n\n" for number in range(900)]
    changed_methods = [*methods[:9], "    def added(self):\n        return None\n\n", *methods[9:]]
    old, new = (f"class A:\n{''.join(lines)}" for lines in (methods, changed_methods))
    python = load_grammar("python")
    version = parse_version(old.encode(), python)
    assert version is not None
    monkeypatch.setattr("pipeline.syntax.grammars.STEPS_PER_BYTE", 0)  # only EXTRA_STEPS are allowed
    monkeypatch.setattr("pipeline.syntax.trees.SMALL_EDIT_BYTES", 0)  # the limit applies to this edit
    assert parse_version(new.encode(), python) is None
    parts = RecordingSource({"old": old.encode(), "new": new.encode()}).diff_blobs("old", "new")
    new_version = parse_incrementally(version, new.encode(), parts)
    assert new_version is not None
    assert new_version.tree.root_node.end_byte == len(new)


@pytest.mark.usefixtures("step_limit")
def test_parses_do_not_leak_memory() -> None:
    """Many full and incremental parses increase the used memory by less than one file takes."""
    old = b"def f():\n    return 1\n\n" * 1_000
    new = old.replace(b"1", b"2", 1)
    python, parts = load_grammar("python"), RecordingSource({"old": old, "new": new}).diff_blobs("old", "new")
    version = parse_version(old, python)
    assert version is not None
    assert parse_incrementally(version, new, parts) is not None
    tracemalloc.start()
    try:
        for _ in range(10):
            parse_incrementally(version, new + b"# no more", parts)  # the parts do not lead to it: full parse
            parse_incrementally(version, new, parts)
        assert tracemalloc.get_traced_memory()[0] < len(new)
    finally:
        tracemalloc.stop()


def test_each_version_is_read_once() -> None:
    """Each of two consecutive versions is read once, because the cache has them."""
    source = RecordingSource({"0": b"a = 1\n", "1": b"a = 2\n"})
    cache, python = VersionCache(), load_grammar("python")
    cache.get("a", "0", python, source)
    cache.get_successor(
        PreviousVersion("a", "0", python, [build_part(0, ["a = 1\n"], 0, ["a = 2\n"])]),
        "a",
        "1",
        python,
        source,
    )
    cache.get("a", "1", python, source)
    assert source.requested_shas == ["0", "1"]


def test_version_cache_is_bounded() -> None:
    """Above the size limit the least recently used versions are evicted, and read again."""
    source = RecordingSource({str(number): b"a = 1\n" * 10 for number in range(4)})
    cache, python = VersionCache(max_bytes=120), load_grammar("python")
    for blob in ("0", "1", "0", "2", "0", "1"):
        cache.get(blob, blob, python, source)
    assert source.requested_shas == ["0", "1", "2", "1"]


def test_version_cache_bounds_files_without_a_tree() -> None:
    """Files without a tree are evicted too, and a file larger than the cache is parsed but not stored."""
    source = RecordingSource(
        {**{str(number): b"x" * 20_001 for number in range(20)}, "large": b"a = 1\n" * 30}
    )
    cache, python = VersionCache(max_bytes=100), load_grammar("python")
    assert {cache.get(blob, blob, python, source) for blob in map(str, range(20))} == {None}
    assert len(cache._versions) == 10
    assert cache.get("large", "large", python, source) is not None


def test_rows() -> None:
    """Only the rows of the range are returned, without their line feeds."""
    content = FileContent(b"a\n\nb")
    assert content.get_rows(0, 0) == [b"a"]
    assert content.get_rows(0, 1) == [b"a", b""]
    assert content.get_rows(1, 2) == [b"", b"b"]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_longest_line_that_is_parsed(end: bytes) -> None:
    """A line of MAX_LINE_BYTES is parsed, a longer one is not."""
    for length, is_within in ((MAX_LINE_BYTES, True), (MAX_LINE_BYTES + 1, False)):
        assert is_within_size_limits(FileContent(b"a\n" + b"x" * length + end)) is is_within


def test_syntax_error() -> None:
    """A version tells whether it has a syntax error."""
    python = load_grammar("python")
    assert [
        isinstance(version, Version) and version.has_syntax_error
        for version in (parse_version(b"a = 1\n", python), parse_version(b"a = = 1\n", python))
    ] == [
        False,
        True,
    ]


def create_history(path: Path) -> tuple[Repo, list[str]]:
    """Create a history in several languages, with and without syntax errors."""
    repo = Repo.create(path)
    names = {"python": "a.py", "rust": "a.rs", "java": "A.java", "kotlin": "a.kt", "javascript": "a.js"}
    assert names.keys() < LANGUAGES_WITH_GRAMMAR
    shas = []
    for step in range(6):
        for grammar, name in names.items():
            blocks = BLOCKS[grammar]
            repo.write(name, "".join(blocks[(i * (step + 1)) % len(blocks)] for i in range(8 + step)))
        shas.append(repo.commit(f"Step {step}"))
    return repo, shas


def test_touched_symbols_do_not_depend_on_the_cache(tmp_path: Path) -> None:
    """A finder for the whole history gives the same symbols as a new finder for every hunk."""
    repo, shas = create_history(tmp_path)
    opened = open_repository(repo.path)
    hunks: list[Hunk] = [hunk for sha in shas for hunk in extract_hunks(opened, sha, lambda _: False).hunks]
    finder = TouchedSymbolFinder()
    symbols = [finder.find(hunk, opened) for hunk in hunks]
    assert symbols == [TouchedSymbolFinder().find(hunk, opened) for hunk in hunks]
    assert symbols == [finder.find(hunk, opened) for hunk in hunks]
    assert any(symbols)


def test_caches_are_separate_for_each_repository(tmp_path: Path) -> None:
    """A process that extracts two repositories returns the symbols of each."""
    for name, lines in (("one", 3), ("other", 5)):
        repo = Repo.create(tmp_path / name)
        shas = []
        for step in range(3):
            repo.write("a.py", "".join(f"def {name}_{line}(): pass\n" for line in range(lines + step)))
            shas.append(repo.commit(f"Step {step}"))
        [batch] = extract_batches(
            ExtractTask(repo.path, IgnoreRules.from_repository(open_repository(repo.path)), (tuple(shas),))
        )
        assert batch.unreadable_commits.num_rows == 0
        assert batch.commits.num_rows == 3
        assert batch.hunk_symbols.num_rows == lines + 2
