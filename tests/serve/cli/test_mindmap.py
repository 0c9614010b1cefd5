"""The `mindmap` command: output, exit codes and imported modules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import serve
from mindmap import document as map_document
from mindmap.document import Mindmap
from mindmap.file_touches import TouchInput, attach_files
from mindmap.map_store import MapStore
from mindmap.nodes import add_note
from serve.cli import mindmap
from tests.mindmap.sample_maps import NOON, create_map, create_timestamp, find_id
from tests.serve.commands import HEAVY_PACKAGES, list_loaded_packages, run_captured

ROOT = Path(serve.__file__).parent.parent


@pytest.fixture
def maps(tmp_path: Path) -> MapStore:
    """Empty map store."""
    return MapStore(tmp_path / "maps")


@pytest.fixture
def document(maps: MapStore) -> Mindmap:
    """Map with a plan, tasks and a link."""
    document = create_map(
        {
            "label": "Parse\x1b[31m headers",
            "status": "in_progress",
            "children": [{"label": "Lexer", "status": "completed"}],
        },
        workspace="/workspace",
    )
    maps.create(document)
    return document


@pytest.fixture(autouse=True)
def _time_zone() -> Iterator[None]:
    """A local time two hours ahead of UTC."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "HERE-2")
        time.tzset()
        yield
    time.tzset()


def run_mindmap(maps: MapStore, *arguments: str) -> tuple[int, str, str]:
    """Run the `mindmap` program in this process; return its exit code, stdout and stderr."""
    return run_captured(*arguments, env={"MINDMAP_DATA_DIR": str(maps.path)}, main=mindmap.main)


def run_program(maps: MapStore, *arguments: str) -> tuple[int, str, str]:
    """Run the `mindmap` program; return its exit code, stdout and stderr."""
    result = subprocess.run(
        [sys.executable, "-m", "serve.cli.mindmap", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "MINDMAP_DATA_DIR": str(maps.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return result.returncode, result.stdout, result.stderr


def test_list_shows_latest_first(maps: MapStore, document: Mindmap) -> None:
    """`list` prints a line per map with local time, latest change first. Words filter the maps; --json prints JSON."""
    other = add_note(create_map(), "Later", create_timestamp(5)).document
    maps.create(other)
    code, out, err = run_program(maps, "list")
    assert (code, err) == (0, "")
    assert out == (
        f"{other.id}  2026-01-01 14:05      0/0  A map\n"
        f"{document.id}  2026-01-01 14:00      1/2  A map  now: Parse\u241b[31m headers  /workspace\n"
    )
    assert run_mindmap(maps, "list", "lexer", "parse")[1].startswith(document.id)
    assert run_mindmap(maps, "list", "lexer", "\a") == (
        0,
        "No map contains all of these words: lexer \u2407\n",
        "",
    )
    summaries = json.loads(run_mindmap(maps, "list", "--json", "LEXER")[1])
    assert summaries == [
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


def test_list_and_show_without_maps(maps: MapStore) -> None:
    """Without maps, `list` and `show` say so."""
    assert run_mindmap(maps, "list") == (0, "No maps yet. An agent creates one with `create_mindmap`.\n", "")
    code, out, err = run_mindmap(maps, "show")
    assert (code, out) == (1, "")
    assert "There is no mindmap in" in err
    assert not maps.path.exists()


def test_show_names_damaged_map(maps: MapStore) -> None:
    """If the only map is damaged, `show` names it instead of saying that there is none."""
    maps.path.mkdir(parents=True)
    (maps.path / "abc.json").write_text("{")
    code, out, err = run_mindmap(maps, "show")
    assert (code, out) == (1, "")
    assert "can be read" in err and "abc" in err
    assert "There is no mindmap" not in err


def test_show_prints_tree(maps: MapStore, document: Mindmap) -> None:
    """A map is printed as a tree with its progress, without escape sequences of labels."""
    parse, lexer = document.nodes["root"].children[0], find_id(document, "Lexer")
    code, out, err = run_mindmap(maps, "show")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "A map  root",
        f"└─ [~] Parse\u241b[31m headers  {parse}",
        f"   └─ [x] Lexer  {lexer}",
        "",
        "1 of 2 done (50 %) · now: Parse\u241b[31m headers",
    ]
    assert run_mindmap(maps, "show", document.id, "--node", lexer)[1].splitlines()[0] == f"[x] Lexer  {lexer}"
    assert run_mindmap(maps, "show", "--depth", "1")[1].splitlines()[1].endswith("1 below")


@pytest.mark.parametrize(
    ("export_format", "text"),
    [("markdown", "# A map"), ("mermaid", "flowchart LR"), ("json", '"title": "A map"')],
)
def test_export_formats(maps: MapStore, document: Mindmap, export_format: str, text: str) -> None:
    """A map is exported in each format."""
    code, out, err = run_mindmap(maps, "export", document.id, "--format", export_format)
    assert (code, err) == (0, "")
    assert text in out


@pytest.mark.parametrize("export_format", ["markdown", "mermaid", "json"])
def test_exported_controls_are_escaped(maps: MapStore, export_format: str) -> None:
    """Control and invisible characters of labels and file names are escaped in a file, too."""
    controls = "\x1b\u202e\x9b\u200b\x7f"
    document = create_map({"label": f"Task {controls}"})
    maps.create(attach_files(document, map_document.ROOT, [TouchInput(f"{controls}.py")], "Touched", NOON))
    _, out, _ = run_mindmap(maps, "export", document.id, "--format", export_format)
    assert "Task" in out and not set(controls) & set(out)
    if export_format == "json":
        assert f"Task {controls}" in {node["label"] for node in json.loads(out)["nodes"].values()}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
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
def test_errors_go_to_stderr(maps: MapStore, arguments: list[str], code: int, message: str) -> None:
    """An invalid argument or id gives one clear error on stderr."""
    result = run_mindmap(maps, *arguments)
    assert (result[0], result[1]) == (code, "")
    assert result[2].startswith("error: ") and message in result[2] and "Traceback" not in result[2]


def test_no_arguments_prints_help(maps: MapStore) -> None:
    """Without a command, the help is printed."""
    code, out, err = run_mindmap(maps)
    assert (code, out) == (2, "")
    assert err.startswith("Usage: mindmap") and "viewer" in err and "error" not in err
    assert err.endswith("configuration of MCP clients for mindmap, or write it.\n")


def test_damaged_file_is_reported(maps: MapStore, document: Mindmap) -> None:
    """A damaged file is reported, and the other maps are listed."""
    (maps.path / "mm_cut.json").write_text("{")
    code, out, err = run_mindmap(maps, "list")
    assert code == 0
    assert out.startswith(document.id)
    assert err.startswith("warning: mm_cut is damaged")
    assert sorted(path.name for path in maps.path.iterdir() if path.is_file()) == sorted(
        [f"{document.id}.json", "mm_cut.json"]
    )


def test_register_writes_and_removes_entry(maps: MapStore, tmp_path: Path) -> None:
    """`register` writes the entry with the configured map directory, and --remove removes it."""
    file = tmp_path / "client.json"
    arguments = ("register", "--file", str(file), "--shape", "mcpServers")
    code, _, err = run_mindmap(maps, *arguments, "--write")
    assert (code, err) == (0, "")
    entry = json.loads(file.read_text())["mcpServers"]["mindmap"]
    assert Path(entry["command"]).name == "mindmap" and Path(entry["command"]).is_absolute()
    assert (entry["args"], entry["env"]) == (["mcp"], {"MINDMAP_DATA_DIR": str(maps.path)})
    assert run_mindmap(maps, *arguments, "--remove")[0] == 0
    assert not file.exists() or "mindmap" not in file.read_text()


def test_import_is_light() -> None:
    """Importing the command imports no server, watcher, parser or drawing library."""
    assert not list_loaded_packages("import serve.cli.mindmap") & {
        *HEAVY_PACKAGES.split(),
        "msgspec",
        "watchdog",
        "pydantic",
    }


def test_list_is_light(maps: MapStore, document: Mindmap, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listing maps imports no database, server or watcher."""
    monkeypatch.setenv("MINDMAP_DATA_DIR", str(maps.path))
    loaded = list_loaded_packages(f"from serve.cli.mindmap import main; main(['export', {document.id!r}])")
    assert not loaded & {"duckdb", "numpy", "pyarrow", "mcp", "watchdog", "pygit2"}
