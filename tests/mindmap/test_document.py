"""What a document's file holds, and what is made of files that others wrote."""

from __future__ import annotations

import json
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
    now,
    plain,
)
from mindmap.file_touches import Touch, attach
from mindmap.links import NewLink, change_links
from mindmap.map_store import mended
from mindmap.nodes import NodeUpdate, note, update_nodes
from tests.mindmap.sample_maps import NOON, a_map, check, id_of, moment


def test_file() -> None:
    """The file has the specified names, and only the fields that apply."""
    document = a_map({"label": "Parse"}, {"label": "Why", "type": "decision"}, workspace="/workspace")
    parse, why = id_of(document, "Parse"), id_of(document, "Why")
    document = change_links(
        document, [NewLink(why, parse, "shapes", "dashed", "for now")], [], moment(1)
    ).document
    change = CodeChange(kind="rename", symbol="parse", previous_symbol="read", detail="says what it does")
    touch = Touch("a.py", "rename", "b.py", "1-9", ("parse",), (change,), "Parser")
    document = attach(document, parse, [touch], "Touched a.py", moment(2))
    stored = json.loads(encode(document))
    assert stored == {
        "id": document.id,
        "title": "A map",
        "workspacePath": "/workspace",
        "createdAt": NOON,
        "updatedAt": moment(2),
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
                        "timestamp": moment(2),
                    }
                ],
                "updatedAt": moment(2),
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
            {"timestamp": moment(2), "message": "Touched a.py", "nodeId": parse, "file": "a.py"},
            {"timestamp": moment(1), "message": "Linked 'Why' -> 'Parse': shapes"},
            {"timestamp": NOON, "message": "Added 2 nodes under 'A map'"},
            {"timestamp": NOON, "message": "Created 'A map'"},
        ],
    }
    assert decode(encode(document), document.id) == document
    assert plain(document) == stored


def test_unknown_fields_survive() -> None:
    """What a newer version wrote into any part is still there after this version changed the same part."""
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
    document = attach(
        document, "n_1", [Touch("a.py", changes=(CodeChange(kind="add", symbol="g"),))], "Touched", NOON
    )
    document = change_links(document, [NewLink("root", "n_1", style="solid")], [], NOON).document
    stored = json.loads(encode(note(document, "Noted", NOON).document))
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
def test_damaged(content: bytes) -> None:
    """What is no JSON is damaged, also where it is nested without end."""
    with pytest.raises(DamagedMindmap, match="mm_1 is damaged"):
        decode(content, "mm_1")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[]", "Expected `object`"),
        ("{}", "missing required field `title`"),
        ('{"title": 3, "nodes": {}}', "Expected `str`, got `int`"),
        ('{"title": "x", "nodes": {"root": {"id": "root", "label": null}}}', "got `null`"),
        ('{"title": "x", "nodes": [], "later": 1}', "Expected `object`, got `array`"),
    ],
)
def test_foreign(content: str, says: str) -> None:
    """Sound JSON of another shape is told apart from damage, and the error says where it differs."""
    with pytest.raises(ForeignMindmap) as caught:
        decode(content.encode(), "mm_1")
    assert says in str(caught.value)


IDS = st.sampled_from(["root", "n_1", "n_2", "n_3", "n_4", "n_gone"])


@given(
    parents=st.dictionaries(IDS, st.none() | IDS, max_size=5),
    children=st.dictionaries(IDS, st.lists(IDS, max_size=5)),
    links=st.lists(st.tuples(IDS, IDS), max_size=3, unique=True),
)
def test_mending(
    parents: dict[str, str | None], children: dict[str, list[str]], links: list[tuple[str, str]]
) -> None:
    """Whatever parents and children a file claims, the map is a tree afterwards and has every node."""
    document = a_map()
    nodes = {
        key: Node(id=key, label=key, type="note", parent=parent, children=tuple(children.get(key, ())))
        for key, parent in parents.items()
        if key != "n_gone"
    }
    made = tuple(Link(id=f"l_{n}", source=source, target=target) for n, (source, target) in enumerate(links))
    broken = decode(encode(document), "mm_1")
    broken = mended(
        type(broken)(
            id="mm_1",
            title="x",
            nodes=nodes,
            links=made,
            activity_log=broken.activity_log,
            updated_at=broken.updated_at,
        )
    )
    assert set(broken.nodes) == set(nodes) | {"root"}
    check(broken)
    assert mended(broken) is broken


def test_mending_a_long_chain() -> None:
    """Thousands of nodes that only say what they are under, the lowest first, are put right in a moment."""
    document = a_map()
    chain = {
        f"n_{n}": Node(id=f"n_{n}", label="x", type="note", parent=f"n_{n - 1}")
        for n in reversed(range(1, 5_000))
    }
    began = time.process_time()
    mended_map = mended(structs.replace(document, nodes={**document.nodes, **chain}))
    assert time.process_time() - began < 2.0
    assert [mended_map.nodes[f"n_{n}"].parent for n in (1, 2, 4_999)] == ["root", "n_1", "n_4998"]
    check(mended_map)


def test_sound_maps_are_left_alone() -> None:
    """Nothing is mended where nothing is wrong."""
    document = a_map({"label": "A", "children": [{"label": "B"}]})
    assert mended(document) is document


def test_moments() -> None:
    """Moments have milliseconds and a Z, so that text sorts as time does."""
    before, after = now(), now()
    assert before <= after
    assert len(before) == len("2026-01-01T12:00:00.000Z") and before.endswith("Z")


def test_touch_is_plain() -> None:
    """Lists of parts are plain too."""
    assert plain([FileTouch(path="a.py")]) == [{"path": "a.py", "action": "modify", "timestamp": ""}]
