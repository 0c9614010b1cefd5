"""The `mindmap` command as a process: output, exit codes, what it loads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import serve
from mindmap.document import Mindmap
from mindmap.map_store import Maps
from mindmap.nodes import note
from tests.mindmap.sample_maps import NOON, a_map, id_of, moment
from tests.serve.commands import HEAVY, loaded_by

ROOT = Path(serve.__file__).parent.parent


@pytest.fixture
def maps(tmp_path: Path) -> Maps:
    return Maps(tmp_path / "maps")


@pytest.fixture
def document(maps: Maps) -> Mindmap:
    document = a_map(
        {
            "label": "Parse\x1b[31m headers",
            "status": "in_progress",
            "children": [{"label": "Lexer", "status": "completed"}],
        },
        workspace="/workspace",
    )
    maps.create(document)
    return document


def mindmap(maps: Maps, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "serve.cli.mindmap", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "MINDMAP_DATA_DIR": str(maps.path), "TZ": "HERE-2"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_list(maps: Maps, document: Mindmap) -> None:
    """A line for each map with the local time, the one changed last on top; words narrow it; JSON is a summary's."""
    other = note(a_map(), "Later", moment(5)).document
    maps.create(other)
    code, out, err = mindmap(maps, "list")
    assert (code, err) == (0, "")
    assert out == (
        f"{other.id}  2026-01-01 14:05      0/0  A map\n"
        f"{document.id}  2026-01-01 14:00      1/2  A map  now: Parse\u241b[31m headers  /workspace\n"
    )
    assert mindmap(maps, "list", "lexer", "parse")[1].startswith(document.id)
    assert mindmap(maps, "list", "lexer", "\a") == (0, "No map has all of these words: lexer \u2407\n", "")
    listed = json.loads(mindmap(maps, "list", "--json", "LEXER")[1])
    assert listed == [
        {
            "id": document.id,
            "title": "A map",
            "workspacePath": "/workspace",
            "updatedAt": NOON,
            "createdAt": NOON,
            "nodeCount": 3,
            "completedTasks": 1,
            "totalTasks": 2,
            "activeTask": "Parse\x1b[31m headers",
            "fileCount": 0,
        }
    ]


def test_nothing_there(maps: Maps) -> None:
    """Without maps the list says so, and so does a map that was asked for."""
    assert mindmap(maps, "list") == (0, "No maps yet: an agent makes one with `create_mindmap`.\n", "")
    code, out, err = mindmap(maps, "show")
    assert (code, out) == (1, "")
    assert "There is no mindmap in" in err
    assert not maps.path.exists()


def test_show(maps: Maps, document: Mindmap) -> None:
    """A map is a tree with its progress; no escape sequence of a label reaches the terminal."""
    parse, lexer = document.nodes["root"].children[0], id_of(document, "Lexer")
    code, out, err = mindmap(maps, "show")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "A map  root",
        f"└─ [~] Parse\u241b[31m headers  {parse}",
        f"   └─ [x] Lexer  {lexer}",
        "",
        "1 of 2 done (50 %) · now: Parse\u241b[31m headers",
    ]
    assert mindmap(maps, "show", document.id, "--node", lexer)[1].splitlines()[0] == f"[x] Lexer  {lexer}"
    assert mindmap(maps, "show", "--depth", "1")[1].splitlines()[1].endswith("1 below")


@pytest.mark.parametrize(
    ("form", "says"), [("markdown", "# A map"), ("mermaid", "flowchart LR"), ("json", '"title": "A map"')]
)
def test_export(maps: Maps, document: Mindmap, form: str, says: str) -> None:
    """A map comes out in each format."""
    code, out, err = mindmap(maps, "export", document.id, "--format", form)
    assert (code, err) == (0, "")
    assert says in out


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["show", "mm_gone"], 1, "There is no mindmap mm_gone"),
        (["show", "../etc/passwd"], 1, "is not a mindmap id"),
        (["show", "--node", "n_gone"], 1, "There is no node 'n_gone'"),
        (["show", "--node", "n_gone"], 1, "(Parse\u241b[31m headers)"),
        (["show", "--depth", "-1"], 2, "--depth"),
        (["export", "--format", "pdf"], 2, "'pdf' is not one of 'markdown', 'mermaid', 'json'"),
        (["nonsense"], 2, "nonsense"),
    ],
)
@pytest.mark.usefixtures("document")
def test_misuse(maps: Maps, arguments: list[str], code: int, says: str) -> None:
    """What cannot be done is one clear error on stderr."""
    done = mindmap(maps, *arguments)
    assert (done[0], done[1]) == (code, "")
    assert done[2].startswith("error: ") and says in done[2] and "Traceback" not in done[2]


def test_no_arguments(maps: Maps) -> None:
    """Without a command the help is shown, as what it is."""
    code, out, err = mindmap(maps)
    assert (code, out) == (2, "")
    assert err.startswith("Usage: mindmap") and "viewer" in err and "error" not in err
    assert err.endswith("configuration for mindmap, or write it.\n")


def test_damaged_neighbour(maps: Maps, document: Mindmap) -> None:
    """A damaged file is reported beside the maps that can be read."""
    (maps.path / "mm_cut.json").write_text("{")
    code, out, err = mindmap(maps, "list")
    assert code == 0
    assert out.startswith(document.id)
    assert err.startswith("warning: mm_cut is damaged")
    assert sorted(path.name for path in maps.path.iterdir() if path.is_file()) == sorted(
        [f"{document.id}.json", "mm_cut.json"]
    )


def test_register(maps: Maps, tmp_path: Path) -> None:
    """A client is told of `mindmap mcp` and of the folder that is set, and told nothing any more when asked."""
    file = tmp_path / "client.json"
    told = ("register", "--file", str(file), "--shape", "mcpServers")
    code, _, err = mindmap(maps, *told, "--write")
    assert (code, err) == (0, "")
    entry = json.loads(file.read_text())["mcpServers"]["mindmap"]
    assert Path(entry["command"]).name == "mindmap" and Path(entry["command"]).is_absolute()
    assert (entry["args"], entry["env"]) == (["mcp"], {"MINDMAP_DATA_DIR": str(maps.path)})
    assert mindmap(maps, *told, "--remove")[0] == 0
    assert not file.exists() or "mindmap" not in file.read_text()


def test_the_door_is_light() -> None:
    """Importing the command loads no server, watcher, reader or drawing library."""
    assert not loaded_by("import serve.cli.mindmap") & {*HEAVY.split(), "msgspec", "watchdog", "pydantic"}


def test_reading_is_light(maps: Maps, document: Mindmap, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listing maps loads no database, server or watcher."""
    monkeypatch.setenv("MINDMAP_DATA_DIR", str(maps.path))
    loaded = loaded_by(f"from serve.cli.mindmap import main; main(['export', {document.id!r}])")
    assert not loaded & {"duckdb", "numpy", "pyarrow", "mcp", "watchdog", "pygit2"}
