"""Maps as text: outlines, Markdown, Mermaid, JSON, and the search in them."""

from __future__ import annotations

import pytest

from mindmap import export
from mindmap.document import ROOT, CodeChange, Mindmap, decode
from mindmap.export import FORMATS, as_json, markdown, mermaid
from mindmap.file_touches import Touch, attach
from mindmap.links import NewLink, change_links
from mindmap.nodes import NodeUpdate, update_nodes
from mindmap.tree import has_words, nodes_with
from tests.mindmap.sample_maps import NOON, a_map, id_of


@pytest.fixture
def document() -> Mindmap:
    document = a_map(
        {
            "label": "Parse *all*\nheaders",
            "type": "plan",
            "status": "in_progress",
            "children": [
                {"label": "Lexer", "status": "completed"},
                {"label": "Deep", "children": [{"label": "Deeper", "type": "code", "status": "blocked"}]},
            ],
        },
        {"label": "Use a [table]", "type": "decision"},
        workspace="/workspace",
    )
    lexer, table = id_of(document, "Lexer"), id_of(document, "Use a [table]")
    change = CodeChange(kind="add", symbol="lex")
    document = attach(
        document,
        lexer,
        [Touch("src/`a`.py", "rename", "b.py", "1-9", ("lex",), (change,), "Words")],
        "Touched",
        NOON,
    )
    return change_links(
        document, [NewLink(table, lexer, 'the "why"', "dashed"), NewLink(lexer, ROOT)], [], NOON
    ).document


def test_outline(document: Mindmap) -> None:
    """A line for each node, with its box or type, its id, and what there is beside it."""
    lexer, deep, deeper, table = (
        id_of(document, label) for label in ("Lexer", "Deep", "Deeper", "Use a [table]")
    )
    parse = document.nodes[ROOT].children[0]
    assert export.text(export.lines(document)).splitlines() == [
        "- A map {root}",
        f"  - [~] Parse *all* headers {{{parse}}} - plan",
        f"    - [x] Lexer {{{lexer}}} - 1 file",
        f"    - [ ] Deep {{{deep}}}",
        f"      - [!] Deeper {{{deeper}}} - code",
        f"  - (decision) Use a [table] {{{table}}}",
    ]
    assert [branches for branches, _ in export.drawn(export.lines(document))] == [
        "",
        "├─ ",
        "│  ├─ ",
        "│  └─ ",
        "│     └─ ",
        "└─ ",
    ]


def test_outline_in_parts(document: Mindmap) -> None:
    """Lower levels are dropped first, and what is hidden is counted."""
    parse = document.nodes[ROOT].children[0]
    assert [(line.label, line.hidden) for line in export.lines(document, deepest=1)] == [
        ("A map", 0),
        ("Parse *all* headers", 3),
        ("Use a [table]", 0),
    ]
    assert [line.depth for line in export.lines(document, most=5)] == [0, 1, 2, 2, 1]
    assert [line.label for line in export.lines(document, parse, deepest=1)] == [
        "Parse *all* headers",
        "Lexer",
        "Deep",
    ]
    assert len(export.lines(document, most=2)) == 2


def test_markdown(document: Mindmap) -> None:
    """Tasks are boxes to tick; what Markdown would read is escaped."""
    shown = markdown(document)
    assert shown.startswith(
        "# A map\n\n1 of 4 done (25 %), updated 2026-01-01T12:00:00.000Z\n\n"
        "- [ ] Parse \\*all\\* headers _(in progress)_\n"
        "  - [x] Lexer\n"
        "    - rename `b.py` to ``src/`a`.py:1-9``: Words (+ `lex`)\n"
        "  - [ ] Deep\n"
        "    - [ ] Deeper _(blocked)_\n"
        "- _decision:_ Use a \\[table\\]\n\n"
        '## Links\n\n- Use a \\[table\\] → Lexer: the "why"\n- Lexer → A map\n\n## Activity\n\n'
    )


def test_mermaid(document: Mindmap) -> None:
    """Every node and link is drawn, with text that Mermaid reads as text."""
    assert mermaid(document) == (
        "flowchart LR\n"
        '  n0(["A map"])\n'
        '  n1["Parse #42;all#42; headers"]\n'
        '  n2["Lexer"]\n'
        '  n3["Deep"]\n'
        '  n4["Deeper"]\n'
        '  n5{"Use a #91;table#93;"}\n'
        "  n0 --- n1\n  n1 --- n2\n  n1 --- n3\n  n3 --- n4\n  n0 --- n5\n"
        '  n5 -.->|"the #34;why#34;"| n2\n'
        "  n2 --> n0\n"
        "  classDef completed fill:#d3f0d3\n  class n2 completed\n"
        "  classDef in_progress fill:#fff2b3\n  class n1 in_progress\n"
        "  classDef blocked fill:#f8d0d0\n  class n4 blocked\n"
    )


def test_json(document: Mindmap) -> None:
    """JSON is the document itself."""
    assert decode(as_json(document).encode(), document.id) == document


@pytest.mark.parametrize("form", FORMATS)
def test_empty_map(form: str) -> None:
    """A map of nothing but its root is text too, with files on the root."""
    assert "A map" in FORMATS[form](a_map())
    assert "a.py" in FORMATS["markdown"](attach(a_map(), ROOT, [Touch("a.py")], "Touched", NOON))


def test_search(document: Mindmap) -> None:
    """Words are found anywhere on a node, in any case; all of them must be."""
    lexer = id_of(document, "Lexer")
    assert [node.id for node in nodes_with(document, "LEX words", ROOT)] == [lexer]
    assert list(nodes_with(document, "lexer table", ROOT)) == []
    assert has_words(document, "lexer TABLE /workspace") and has_words(document, "")
    assert not has_words(document, "lexer nowhere")
    renamed = update_nodes(document, [NodeUpdate(ROOT, label="Another")], NOON).document
    assert has_words(renamed, "another")
