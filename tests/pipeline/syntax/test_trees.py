"""A tree never depends on which trees were kept: following a file's versions equals parsing each whole."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.extract import Task, extract
from pipeline.git.patches import Part
from pipeline.git.repository import open_repository
from pipeline.hunks import Hunk, hunks
from pipeline.ignore import IgnoreRules
from pipeline.parse import Parses
from pipeline.syntax.grammars import Node, load
from pipeline.syntax.languages import PARSED
from pipeline.syntax.trees import (
    SMALL_EDIT,
    Before,
    Content,
    Version,
    Versions,
    edits,
    following,
    parsed,
    reaching_back,
)
from tests.repos import Repo

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


def part(old_start: int, old: Sequence[str], new_start: int, new: Sequence[str]) -> Part:
    """The part of a diff that replaces some lines by others, without context."""
    return Part(
        old_start=old_start + bool(old),
        old_count=len(old),
        new_start=new_start + bool(new),
        new_count=len(new),
        header="",
        added=tuple(range(new_start + 1, new_start + 1 + len(new))),
        removed=tuple(range(old_start + 1, old_start + 1 + len(old))),
    )


def shape(node: Node) -> list[tuple[int, str, int, int]]:
    """Every node with its depth, type and place."""
    nodes, stack = [], [(node, 0)]
    while stack:
        here, depth = stack.pop()
        nodes.append((depth, here.type, here.start_byte, here.end_byte))
        stack += [(child, depth + 1) for child in reversed(here.children)]
    return nodes


class Reader:
    """Blobs by name, and which of them were read."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self.contents = contents
        self.read: list[str] = []

    def blob(self, sha: str) -> bytes:
        self.read.append(sha)
        return self.contents[sha]

    def parts(self, old: str, new: str) -> Sequence[Part]:
        was, now = (self.contents[sha].decode().splitlines(keepends=True) for sha in (old, new))
        codes = SequenceMatcher(None, was, now, autojunk=False).get_opcodes()
        return [part(a, was[a:b], c, now[c:d]) for tag, a, b, c, d in codes if tag != "equal"]


@pytest.fixture(params=[0, SMALL_EDIT], ids=["watched", "unwatched"])
def watched(request: pytest.FixtureRequest) -> Iterator[None]:
    """Edits that are parsed within a bound on steps, and such that are not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.syntax.trees.SMALL_EDIT", request.param)
        yield


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("grammar", sorted(BLOCKS))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_versions_followed_equal_versions_parsed_whole(grammar: str, data: st.DataObject) -> None:
    """Any lines replaced by any others, ten times over: every tree is the one a fresh parse gives."""
    lines = st.lists(st.sampled_from(BLOCKS[grammar]), max_size=12)
    versions, whole = Versions(), load(grammar)
    content = "".join(data.draw(lines)).splitlines(keepends=True)
    texts = {"0": "".join(content).encode()}
    reader = Reader(texts)
    versions.of("a", "0", whole, reader)
    apart = Versions()
    for number in range(1, 6):
        start = data.draw(st.integers(0, len(content)))
        end = data.draw(st.integers(start, len(content)))
        new = "".join(data.draw(lines)).splitlines(keepends=True)
        before = Before("a", str(number - 1), whole, [part(start, content[start:end], start, new)])
        content = content[:start] + new + content[end:]
        texts[str(number)] = "".join(content).encode()
        followed = versions.after(before, "a", str(number), whole, reader)
        fresh = parsed(texts[str(number)], whole)
        assert followed is not None
        assert fresh is not None
        assert shape(followed.tree.root_node) == shape(fresh.tree.root_node)
        if number % 2:  # as a worker meets them that does every other batch
            skipping = apart.of("a", str(number), whole, reader)
            assert skipping is not None
            assert shape(skipping.tree.root_node) == shape(fresh.tree.root_node)


def test_parts_that_do_not_lead_to_the_content_are_not_trusted() -> None:
    """A diff of other contents is noticed byte by byte, and the file is parsed whole."""
    old, new = b"a = 1\nb = 2\nc = 3\n", b"a = 1\nx = 2\ny = 3\n"
    wrong = [part(1, ["b = 2\n"], 1, ["x = 2\n"])]
    assert edits(Content(old), Content(new), wrong) is None
    version = parsed(old, load("python"))
    assert version is not None
    followed = following(version, new, wrong)
    assert followed is not None
    assert followed.tree.root_node.end_byte == len(new)


@given(
    old=st.lists(st.sampled_from(["a\n", "b\n", "\n", "c c\n"]), max_size=8),
    new=st.lists(st.sampled_from(["a\n", "b\n", "\n", "c c\n"]), max_size=8),
    tails=st.tuples(st.sampled_from(["", "t"]), st.sampled_from(["", "t"])),
)
def test_edits_lead_from_the_old_content_to_the_new(
    old: list[str], new: list[str], tails: tuple[str, str]
) -> None:
    """What an edit takes out and puts in turns the one content into the other, points included."""
    before = ["x\n", *old, *([tails[0]] if tails[0] else [])]
    after = ["x\n", *new, *([tails[1]] if tails[1] else [])]
    one, other = "".join(before).encode(), "".join(after).encode()
    found = edits(Content(one), Content(other), [part(1, before[1:], 1, after[1:])])
    assert found is not None
    for edit in (*found, *reaching_back(found, Content(one), Content(other))):
        put = other[edit.new_start.byte : edit.new_end.byte]
        assert one[: edit.old_start.byte] + put + one[edit.old_end.byte :] == other
        places = ((one, edit.old_start), (one, edit.old_end), (other, edit.new_start), (other, edit.new_end))
        for content, place in places:
            head = content[: place.byte]
            assert place.point == (head.count(b"\n"), len(head) - (head.rfind(b"\n") + 1))


def test_a_changed_definition_costs_its_own_parse_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows it is reused: the parser reads on to the definition's end, not to the file's."""
    methods = [f"    def m{number}(self):\n        return {number}\n\n" for number in range(900)]
    changed = [*methods[:9], "    def added(self):\n        return None\n\n", *methods[9:]]
    old, new = (f"class A:\n{''.join(lines)}" for lines in (methods, changed))
    python = load("python")
    version = parsed(old.encode(), python)
    assert version is not None
    monkeypatch.setattr("pipeline.syntax.grammars.STEPS_PER_BYTE", 0)  # STEPS_AT_LEAST for the whole
    monkeypatch.setattr("pipeline.syntax.trees.SMALL_EDIT", 0)  # so that its steps count
    assert parsed(new.encode(), python) is None
    parts = Reader({"old": old.encode(), "new": new.encode()}).parts("old", "new")
    followed = following(version, new.encode(), parts)
    assert followed is not None
    assert followed.tree.root_node.end_byte == len(new)


@pytest.mark.usefixtures("watched")
def test_a_parse_leaves_nothing_of_a_content_behind() -> None:
    """However often a file is parsed, whole or from another version, its bytes are let go of with the tree."""
    old = b"def f():\n    return 1\n\n" * 1_000
    new = old.replace(b"1", b"2", 1)
    python, parts = load("python"), Reader({"old": old, "new": new}).parts("old", "new")
    version = parsed(old, python)
    assert version is not None
    assert following(version, new, parts) is not None
    tracemalloc.start()
    try:
        for _ in range(10):
            following(version, new + b"# no more", parts)  # not what the parts lead to: parsed whole
            following(version, new, parts)
        assert tracemalloc.get_traced_memory()[0] < len(new)
    finally:
        tracemalloc.stop()


def test_a_following_version_reads_only_itself() -> None:
    """The version before is kept: a file's chain costs one read a version."""
    read = Reader({"0": b"a = 1\n", "1": b"a = 2\n"})
    versions, python = Versions(), load("python")
    versions.of("a", "0", python, read)
    versions.after(Before("a", "0", python, [part(0, ["a = 1\n"], 0, ["a = 2\n"])]), "a", "1", python, read)
    versions.of("a", "1", python, read)
    assert read.read == ["0", "1"]


def test_what_is_kept_is_bounded() -> None:
    """Beyond the bound the versions longest unused are read again."""
    read = Reader({str(number): b"a = 1\n" * 10 for number in range(4)})
    versions, python = Versions(kept_bytes=120), load("python")
    for blob in ("0", "1", "0", "2", "0", "1"):
        versions.of(blob, blob, python, read)
    assert read.read == ["0", "1", "2", "1"]


def test_a_version_that_does_not_parse_is_sound_no_more() -> None:
    """Soundness is what decides about incremental parses."""
    python = load("python")
    assert [
        isinstance(v, Version) and v.sound for v in (parsed(b"a = 1\n", python), parsed(b"a = = 1\n", python))
    ] == [
        True,
        False,
    ]


def grown(path: Path) -> tuple[Repo, list[str]]:
    """A history in several languages, of versions that break and mend."""
    repo = Repo.create(path)
    names = {"python": "a.py", "rust": "a.rs", "java": "A.java", "kotlin": "a.kt", "javascript": "a.js"}
    assert names.keys() < PARSED
    shas = []
    for step in range(6):
        for grammar, name in names.items():
            blocks = BLOCKS[grammar]
            repo.write(name, "".join(blocks[(i * (step + 1)) % len(blocks)] for i in range(8 + step)))
        shas.append(repo.commit(f"Step {step}"))
    return repo, shas


def test_touched_symbols_do_not_depend_on_the_batch(tmp_path: Path) -> None:
    """One cache for a whole history, or a new one for every hunk: the same symbols."""
    repo, shas = grown(tmp_path)
    opened = open_repository(repo.path)
    found: list[Hunk] = [hunk for sha in shas for hunk in hunks(opened, sha, lambda _: False).hunks]
    together = Parses()
    followed = [together.touched(hunk, opened) for hunk in found]
    assert followed == [Parses().touched(hunk, opened) for hunk in found]
    assert followed == [together.touched(hunk, opened) for hunk in found]
    assert any(followed)


def test_one_repository_after_another(tmp_path: Path) -> None:
    """A process that read one repository reads the next: a version there is not followed from another's file."""
    for name, lines in (("one", 3), ("other", 5)):
        repo = Repo.create(tmp_path / name)
        shas = []
        for step in range(3):
            repo.write("a.py", "".join(f"def of_{name}_{line}(): pass\n" for line in range(lines + step)))
            shas.append(repo.commit(f"Step {step}"))
        found = extract(Task(repo.path, IgnoreRules.of(open_repository(repo.path)), tuple(shas)))
        assert found.unreadable.num_rows == 0
        assert found.commits.num_rows == 3
        assert found.hunk_symbols.num_rows == lines + 2
