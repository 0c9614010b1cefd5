"""Text forms of maps: outlines, Markdown, Mermaid, JSON; and word search."""

from __future__ import annotations

import pytest

from mindmap import export
from mindmap.document import ROOT, Activity, CodeChange, FileTouch, Link, Mindmap, Node, decode
from mindmap.export import FORMATS, build_outline, format_outline, to_markdown, to_mermaid
from mindmap.file_touches import TouchInput, attach_files
from mindmap.links import NewLink, change_links
from mindmap.nodes import NodeUpdate, update_nodes
from mindmap.tree import find_nodes, matches_words
from tests.mindmap.sample_maps import NOON, create_map, find_id


@pytest.fixture
def document() -> Mindmap:
    document = create_map(
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
    lexer, table = find_id(document, "Lexer"), find_id(document, "Use a [table]")
    change = CodeChange(kind="add", symbol="lex")
    document = attach_files(
        document,
        lexer,
        [TouchInput("src/`a`.py", "rename", "b.py", "1-9", ("lex",), (change,), "Words")],
        "Touched",
        NOON,
    )
    return change_links(
        document, [NewLink(table, lexer, 'the "why"', "dashed"), NewLink(lexer, ROOT)], [], NOON
    ).document


def test_outline(document: Mindmap) -> None:
    """An outline has a line for each node: its status as a checkbox or its type, its label, id and remarks."""
    lexer, deep, deeper, table = (
        find_id(document, label) for label in ("Lexer", "Deep", "Deeper", "Use a [table]")
    )
    parse = document.nodes[ROOT].children[0]
    assert export.format_outline(export.build_outline(document)).splitlines() == [
        "- A map {root}",
        f"  - [~] Parse *all* headers {{{parse}}} - plan",
        f"    - [x] Lexer {{{lexer}}} - 1 file",
        f"    - [ ] Deep {{{deep}}}",
        f"      - [!] Deeper {{{deeper}}} - code",
        f"  - (decision) Use a [table] {{{table}}}",
    ]
    assert [connectors for connectors, _ in export.add_connectors(export.build_outline(document))] == [
        "",
        "├─ ",
        "│  ├─ ",
        "│  └─ ",
        "│     └─ ",
        "└─ ",
    ]


def test_limited_outline(document: Mindmap) -> None:
    """The deepest levels are dropped first, and hidden nodes are counted."""
    parse = document.nodes[ROOT].children[0]
    assert [(line.label, line.hidden_count) for line in export.build_outline(document, max_depth=1)] == [
        ("A map", 0),
        ("Parse *all* headers", 3),
        ("Use a [table]", 0),
    ]
    assert [line.depth for line in export.build_outline(document, max_lines=5)] == [0, 1, 2, 2, 1]
    assert [line.label for line in export.build_outline(document, parse, max_depth=1)] == [
        "Parse *all* headers",
        "Lexer",
        "Deep",
    ]
    assert len(export.build_outline(document, max_lines=2)) == 2


def test_markdown(document: Mindmap) -> None:
    """Tasks become task list items; Markdown characters are escaped."""
    markdown = to_markdown(document)
    assert markdown.startswith(
        "# A map\n\n1 of 4 done (25 %), updated 2026-01-01T12:00:00.000Z\n\n"
        "- [ ] Parse \\*all\\* headers _(in progress)_\n"
        "  - [x] Lexer\n"
        "    - rename `b.py` to ``src/`a`.py:1-9``: Words (+ `lex`)\n"
        "  - [ ] Deep\n"
        "    - [ ] Deeper _(blocked)_\n"
        "- _decision:_ Use a \\[table\\]\n\n"
        '## Links\n\n- Use a \\[table\\] → Lexer: the "why"\n- Lexer → A map\n\n## Activity\n\n'
    )


MARKDOWN = r"\ ` * _ [x](y) <b> # | ~ &amp;"
ESCAPED = r"\\ \` \* \_ \[x\](y) \<b\> \# \| \~ \&amp;"


def test_markdown_characters_are_escaped() -> None:
    """Every text shows Markdown characters as they are: also what another program may have written."""
    touch = FileTouch(
        path="a.py",
        action=f"act {MARKDOWN}",
        summary=f"Summary {MARKDOWN}",
        changes=(CodeChange(kind=f"kind {MARKDOWN}", symbol="f"),),
    )
    node = Node(id="n_1", label=f"Label {MARKDOWN}", type=f"type {MARKDOWN}", parent=ROOT, files=(touch,))
    root = Node(id=ROOT, label="A map", type=ROOT, children=("n_1",))
    link = Link(id="l_1", source="n_1", target=ROOT, label=f"Link {MARKDOWN}", notes=f"Notes {MARKDOWN}")
    entry = Activity(timestamp=f"time {MARKDOWN}", message=f"Message {MARKDOWN}")
    markdown = to_markdown(
        Mindmap(
            title=f"Title {MARKDOWN}",
            updated_at=f"then {MARKDOWN}",
            nodes={ROOT: root, "n_1": node},
            links=(link,),
            activity_log=(entry,),
        )
    )
    assert markdown == (
        f"# Title {ESCAPED}\n\nno tasks yet, updated then {ESCAPED}\n\n"
        f"- _type {ESCAPED}:_ Label {ESCAPED}\n"
        f"  - act {ESCAPED} `a.py`: Summary {ESCAPED} (kind {ESCAPED} `f`)\n\n"
        f"## Links\n\n- Label {ESCAPED} → A map: Link {ESCAPED}: Notes {ESCAPED}\n\n"
        f"## Activity\n\n- time {ESCAPED}: Message {ESCAPED}\n"
    )


@pytest.mark.parametrize(
    ("label", "shown"),
    [("- a", r"\- a"), ("+", r"\+"), ("1. a", r"1\. a"), ("23) a", r"23\) a"), ("-a 1.5", "-a 1.5")],
)
def test_list_markers_are_escaped(label: str, shown: str) -> None:
    """A label that begins like a list item stays on the line of its link."""
    document = create_map({"label": label})
    document = change_links(document, [NewLink(find_id(document, label), ROOT)], [], NOON).document
    assert f"\n- {shown} → A map\n" in to_markdown(document)


def test_mermaid(document: Mindmap) -> None:
    """Every node and link is drawn, with escaped text."""
    assert to_mermaid(document) == (
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
    """The JSON export is the stored document."""
    assert decode(FORMATS["json"](document).encode(), document.id) == document


def test_reason_of_a_blocked_task_is_shown() -> None:
    """Outline and Markdown show why a task is blocked, and a search finds it."""
    document = create_map({"label": "Deploy"})
    deploy = find_id(document, "Deploy")
    document = update_nodes(
        document, [NodeUpdate(deploy, status="blocked", reason="No *key*")], NOON
    ).document
    assert format_outline(build_outline(document)).endswith(f"- [!] Deploy {{{deploy}}} - No *key*")
    assert "- [ ] Deploy _(blocked: No \\*key\\*)_\n" in to_markdown(document)
    assert [node.id for node in find_nodes(document, "key", ROOT)] == [deploy]


def test_line_counts_are_beside_a_written_summary() -> None:
    """Markdown shows git's line counts after a summary of an agent; a generated summary has them already."""
    touches = [
        TouchInput("a.py", summary="Lazy bucket", lines_added=3, lines_removed=0),
        TouchInput("b.py", summary="Git modify (+4/-1 lines)", lines_added=4, lines_removed=1),
        TouchInput("c.bin", summary="Logo", lines_added=0, lines_removed=0),
    ]
    markdown = to_markdown(attach_files(create_map(), ROOT, touches, "Touched", NOON))
    assert "- modify `a.py`: Lazy bucket (+3/-0)\n" in markdown
    assert "- modify `b.py`: Git modify (+4/-1 lines)\n" in markdown
    assert "- modify `c.bin`: Logo\n" in markdown


@pytest.mark.parametrize("export_format", FORMATS)
def test_empty_map(export_format: str) -> None:
    """Every format exports a map with only a root; Markdown also lists the files of the root."""
    assert "A map" in FORMATS[export_format](create_map())
    assert "a.py" in FORMATS["markdown"](
        attach_files(create_map(), ROOT, [TouchInput("a.py")], "Touched", NOON)
    )


def test_search(document: Mindmap) -> None:
    """Search is case-insensitive and finds nodes and maps that contain all words."""
    lexer = find_id(document, "Lexer")
    assert [node.id for node in find_nodes(document, "LEX words", ROOT)] == [lexer]
    assert list(find_nodes(document, "lexer table", ROOT)) == []
    assert matches_words(document, "lexer TABLE /workspace") and matches_words(document, "")
    assert not matches_words(document, "lexer nowhere")
    renamed = update_nodes(document, [NodeUpdate(ROOT, label="Another")], NOON).document
    assert matches_words(renamed, "another")
