"""Documents: the file format, unknown fields, damaged files, repair and timestamps."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from mindmap.document import (
    CodeChange,
    DamagedMindmap,
    FileTouch,
    ForeignMindmap,
    Link,
    Node,
    decode,
    encode,
    to_json_value,
    utc_now,
)
from mindmap.file_touches import TouchInput, attach_files
from mindmap.links import NewLink, change_links
from mindmap.map_store import repair
from mindmap.nodes import NodeUpdate, add_note, update_nodes
from tests.mindmap.sample_maps import NOON, assert_consistent, create_map, create_timestamp, find_id


def test_file_format() -> None:
    """The file has the specified field names, and only the fields that apply."""
    document = create_map({"label": "Parse"}, {"label": "Why", "type": "decision"}, workspace="/workspace")
    parse, why = find_id(document, "Parse"), find_id(document, "Why")
    document = change_links(
        document, [NewLink(why, parse, "shapes", "dashed", "for now")], [], create_timestamp(1)
    ).document
    change = CodeChange(kind="rename", symbol="parse", previous_symbol="read", detail="says what it does")
    touch = TouchInput("a.py", "rename", "b.py", "1-9", ("parse",), (change,), "Parser")
    document = attach_files(document, parse, [touch], "Touched a.py", create_timestamp(2))
    stored = json.loads(encode(document))
    assert stored == {
        "id": document.id,
        "title": "A map",
        "workspacePath": "/workspace",
        "createdAt": NOON,
        "updatedAt": create_timestamp(2),
        "nodes": {
            "root": {
                "id": "root",
                "label": "A map",
                "type": "root",
                "parent": None,
                "children": [parse, why],
                "updatedAt": NOON,
            },
            parse: {
                "id": parse,
                "label": "Parse",
                "type": "task",
                "status": "planned",
                "parent": "root",
                "children": [],
                "files": [
                    {
                        "path": "a.py",
                        "action": "rename",
                        "previousPath": "b.py",
                        "lines": "1-9",
                        "symbols": ["parse"],
                        "changes": [
                            {
                                "kind": "rename",
                                "symbol": "parse",
                                "previousSymbol": "read",
                                "detail": "says what it does",
                            }
                        ],
                        "summary": "Parser",
                        "timestamp": create_timestamp(2),
                    }
                ],
                "updatedAt": create_timestamp(2),
            },
            why: {
                "id": why,
                "label": "Why",
                "type": "decision",
                "parent": "root",
                "children": [],
                "updatedAt": NOON,
            },
        },
        "links": [
            {
                "id": document.links[0].id,
                "from": why,
                "to": parse,
                "label": "shapes",
                "style": "dashed",
                "notes": "for now",
            }
        ],
        "activityLog": [
            {"timestamp": create_timestamp(2), "message": "Touched a.py", "nodeId": parse, "file": "a.py"},
            {"timestamp": create_timestamp(1), "message": "Linked 'Why' -> 'Parse': shapes"},
            {"timestamp": NOON, "message": "Added 2 nodes under 'A map'"},
            {"timestamp": NOON, "message": "Created 'A map'"},
        ],
    }
    assert decode(encode(document), document.id) == document
    assert to_json_value(document) == stored


DECODE_IN_THREADS = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from mindmap import document

sys.setswitchinterval(1e-6)
barrier = threading.Barrier(20)

def decode(_):
    barrier.wait()
    return document.decode(b'{"title": "Map", "nodes": {}}', "id").title

with ThreadPoolExecutor(20) as pool:
    assert set(pool.map(decode, range(20))) == {"Map"}
"""


def test_first_documents_in_several_threads() -> None:
    """Threads can decode the first documents of a process at the same time. Five tries, as a race may not happen."""
    for _ in range(5):
        subprocess.run([sys.executable, "-c", DECODE_IN_THREADS], check=True)


def test_unknown_fields_survive() -> None:
    """Unknown fields of a newer version survive changes in every part of a document."""
    later: dict[str, Any] = {"unknown": {"a": 1}, "colour": ["red", {"deep": None}]}
    raw = {
        "title": "Later",
        "nodes": {
            "root": {
                "id": "root",
                "label": "Later",
                "type": "root",
                "parent": None,
                "children": ["n_1"],
                **later,
            },
            "n_1": {
                "id": "n_1",
                "label": "Epic",
                "type": "epic",
                "status": "paused",
                "parent": "root",
                "files": [{"path": "a.py", "changes": [{"kind": "port", "symbol": "f", **later}], **later}],
                **later,
            },
        },
        "links": [{"id": "l_1", "from": "root", "to": "n_1", "label": "", **later}],
        "activityLog": [{"timestamp": NOON, "message": "Began", **later}],
        **later,
    }
    document = decode(json.dumps(raw).encode(), "mm_1")
    document = update_nodes(
        document, [NodeUpdate("n_1", label="Epos"), NodeUpdate("root", label="Sooner")], NOON
    ).document
    document = attach_files(
        document, "n_1", [TouchInput("a.py", changes=(CodeChange(kind="add", symbol="g"),))], "Touched", NOON
    )
    document = change_links(document, [NewLink("root", "n_1", style="solid")], [], NOON).document
    stored = json.loads(encode(add_note(document, "Noted", NOON).document))
    node = stored["nodes"]["n_1"]
    parts = [
        stored,
        stored["nodes"]["root"],
        node,
        node["files"][0],
        node["files"][0]["changes"][0],
        stored["links"][0],
        stored["activityLog"][-1],
    ]
    assert all(part.items() >= later.items() for part in parts)
    assert (node["label"], node["type"], node["files"][0]["changes"][1]["symbol"]) == ("Epos", "epic", "g")
    assert stored["links"][0]["style"] == "solid"


@pytest.mark.parametrize(
    "content", [b"", b"{", b"nonsense", b"\xff\xfe", b"[" * 100_000, b'{"title": "' + b"x" * 1000]
)
def test_damaged_files(content: bytes) -> None:
    """Invalid or too deeply nested JSON is reported as damaged."""
    with pytest.raises(DamagedMindmap, match="mm_1 is damaged"):
        decode(content, "mm_1")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "Expected `object`"),
        ("{}", "missing required field `title`"),
        ('{"title": 3, "nodes": {}}', "Expected `str`, got `int`"),
        ('{"title": "x", "nodes": {"root": {"id": "root", "label": null}}}', "got `null`"),
        ('{"title": "x", "nodes": [], "later": 1}', "Expected `object`, got `array`"),
    ],
)
def test_foreign_files(content: str, message: str) -> None:
    """Valid JSON that is no mindmap is reported as foreign, and the error names the difference."""
    with pytest.raises(ForeignMindmap) as caught:
        decode(content.encode(), "mm_1")
    assert message in str(caught.value)


IDS = st.sampled_from(["root", "n_1", "n_2", "n_3", "n_4", "n_gone"])


@given(
    parents=st.dictionaries(IDS, st.none() | IDS, max_size=5),
    children=st.dictionaries(IDS, st.lists(IDS, max_size=5)),
    links=st.lists(st.tuples(IDS, IDS), max_size=3, unique=True),
)
def test_repair(
    parents: dict[str, str | None], children: dict[str, list[str]], links: list[tuple[str, str]]
) -> None:
    """Repair turns any parents and children into a tree, without losing a node."""
    document = create_map()
    nodes = {
        key: Node(id=key, label=key, type="note", parent=parent, children=tuple(children.get(key, ())))
        for key, parent in parents.items()
        if key != "n_gone"
    }
    link_list = tuple(
        Link(id=f"l_{n}", source=source, target=target) for n, (source, target) in enumerate(links)
    )
    template = decode(encode(document), "mm_1")
    repaired = repair(
        type(template)(
            id="mm_1",
            title="x",
            nodes=nodes,
            links=link_list,
            activity_log=template.activity_log,
            updated_at=template.updated_at,
        )
    )
    assert set(repaired.nodes) == set(nodes) | {"root"}
    assert_consistent(repaired)
    assert repair(repaired) is repaired


def test_repair_keeps_a_node_in_its_first_list() -> None:
    """A node in the `children` lists of two siblings stays in that of the first, which is also its `parent`."""
    document = create_map({"label": "A", "children": [{"label": "B"}]}, {"label": "C"})
    first, child, second = (find_id(document, label) for label in "ABC")
    nodes = {**document.nodes, second: structs.replace(document.nodes[second], children=(child,))}
    repaired = repair(structs.replace(document, nodes=nodes))
    assert (repaired.nodes[first].children, repaired.nodes[second].children) == ((child,), ())
    assert repaired.nodes[child].parent == first


def test_repair_of_a_long_chain() -> None:
    """Thousands of nodes in no `children` list, the deepest first, are repaired quickly by their `parent`."""
    document = create_map()
    chain = {
        f"n_{n}": Node(id=f"n_{n}", label="x", type="note", parent=f"n_{n - 1}")
        for n in reversed(range(1, 5_000))
    }
    start = time.process_time()
    repaired = repair(structs.replace(document, nodes={**document.nodes, **chain}))
    assert time.process_time() - start < 2.0
    assert [repaired.nodes[f"n_{n}"].parent for n in (1, 2, 4_999)] == ["root", "n_1", "n_4998"]
    assert_consistent(repaired)


def test_consistent_maps_are_not_repaired() -> None:
    """Repair returns a consistent document itself."""
    document = create_map({"label": "A", "children": [{"label": "B"}]})
    assert repair(document) is document


def test_timestamps() -> None:
    """Timestamps have milliseconds and a Z, so that text order is time order."""
    before, after = utc_now(), utc_now()
    assert before <= after
    assert len(before) == len("2026-01-01T12:00:00.000Z") and before.endswith("Z")


def test_json_value_of_a_list() -> None:
    """A list of document parts becomes a list of dicts."""
    assert to_json_value([FileTouch(path="a.py")]) == [{"path": "a.py", "action": "modify", "timestamp": ""}]
