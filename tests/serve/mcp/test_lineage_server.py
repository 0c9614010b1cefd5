"""The tools of `lineage-mcp`, asked in memory: what they say of themselves, answer and refuse."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.server import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, Tool

from serve.api_types import Explained, ExplainHit, ExplainMeta, FindMeta, PatternHit
from serve.backend import Own
from serve.mcp.lineage_server import lineage_server
from tests.repos import Repo
from tests.serve.mcp.clients import ask, call, said, text
from tests.serve.sample_index import index


def served(repo: Repo, home: Path) -> MCPServer[Any]:
    return lineage_server(Own(home), repo.path)


def tools(repo: Repo, home: Path) -> dict[str, Tool]:
    async def steps(client: Client) -> Any:
        assert "find_pattern" in (client.instructions or "")
        return (await client.list_tools()).tools

    return {tool.name: tool for tool in ask(served(repo, home), steps)}


def test_tools_describe_themselves(repo: Repo, home: Path) -> None:
    """Both tools say what they are for and what they are not for, every input is described, all four hints are set."""
    listed = tools(repo, home)
    assert set(listed) == {"find_pattern", "explain_change"}
    for tool in listed.values():
        assert "Use it" in (tool.description or "")
        assert "Do not use it" in (tool.description or "")
        assert tool.annotations is not None
        assert tool.annotations.model_dump(exclude={"title"}) == {
            "read_only_hint": True,
            "destructive_hint": False,
            "idempotent_hint": True,
            "open_world_hint": False,
        }
        assert tool.input_schema["additionalProperties"] is False
        assert all(field["description"] for field in tool.input_schema["properties"].values())
    defaults = {
        name: field.get("default")
        for name, field in listed["explain_change"].input_schema["properties"].items()
    }
    assert defaults == {
        "file": None,
        "line_start": 1,
        "line_end": 0,
        "k": 5,
        "include_diff": True,
        "include_related": False,
    }
    assert listed["find_pattern"].input_schema["required"] == ["query"]


@pytest.mark.parametrize(
    ("tool", "kinds"),
    [("find_pattern", [PatternHit, FindMeta]), ("explain_change", [ExplainHit, ExplainMeta, Explained])],
)
def test_output_schema(repo: Repo, home: Path, tool: str, kinds: list[type]) -> None:
    """The published schema has every field of an answer."""
    schema = tools(repo, home)[tool].output_schema
    assert schema is not None
    assert set(schema["properties"]) == {"hits", "_meta"}
    for kind in kinds:
        assert set(schema["$defs"][kind.__name__]["properties"]) == {field.name for field in fields(kind)}


def test_content(repo: Repo, home: Path) -> None:
    """Structured content has the fields of the specification, `_meta.compatibility` among them, and no empty ones."""
    index(repo, home)
    found = said(call(served(repo, home), "find_pattern", query="timeout in `connect`", k=1))
    assert list(found) == ["hits", "_meta"]
    assert list(found["hits"][0]) == [field.name for field in fields(PatternHit)]
    assert found["_meta"]["compatibility"] == {"status": "compatible"}
    assert set(found["_meta"]) == {"index_status", "hint", "compatibility", "query_profile"}
    explained = said(call(served(repo, home), "explain_change", file="src/tcp.py", include_diff=False))
    assert "diff_excerpt" not in explained["hits"][0]
    assert "related_commits" not in explained["_meta"]["explain"]


def test_related_commits_on_request(repo: Repo, home: Path) -> None:
    """Neighbours come only when they are asked for."""
    repo.commit_file("src/tcp.py", "def connect():\n    timeout(1)\n", "Wait for a second")
    repo.commit_file("src/tcp.py", "def connect():\n    timeout(2)\n", "Wait for two")
    index(repo, home)
    asked = served(repo, home)
    explained = said(call(asked, "explain_change", file="src/tcp.py", line_start=2, include_related=True))
    assert [row["commit_message"].strip() for row in explained["_meta"]["explain"]["related_commits"]] == [
        "Wait for a second",
        "Add a timeout to connect",
    ]


def test_without_an_index(repo: Repo, home: Path) -> None:
    """Without an index: no hits, a hint, and a verdict that says nothing is known."""
    found = said(call(served(repo, home), "find_pattern", query="timeout"))
    assert found["hits"] == []
    assert "lineage index" in found["_meta"]["hint"]
    assert found["_meta"]["compatibility"]["status"] == "unknown"
    explained = said(call(served(repo, home), "explain_change", file="src/tcp.py"))
    assert len(explained["hits"]) == 1


def test_needs_rebuild(repo: Repo, home: Path) -> None:
    """Vectors of another model: `invalid_params` naming the command; an explanation is given all the same."""
    index(repo, home, embedding_model="another")

    async def steps(client: Client) -> Any:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("find_pattern", {"query": "timeout"})
        return refused.value.error

    error = ask(served(repo, home), steps)
    assert error.code == INVALID_PARAMS
    assert "lineage index --rebuild --yes" in error.message
    explained = said(call(served(repo, home), "explain_change", file="src/tcp.py"))
    assert explained["_meta"]["compatibility"]["status"] == "needs_rebuild"


@pytest.mark.parametrize(
    ("changed", "said_so", "hint"),
    [
        ({}, {"status": "compatible"}, None),
        ({"parser_java": "0"}, {"status": "compatible"}, None),
        (
            {"words_version": "0"},
            {
                "status": "query_compatible_needs_refresh",
                "reason": "words_version 0, now 1; run `lineage index --rebuild --yes`",
            },
            "The index is query-compatible, refresh recommended (words_version 0, now 1; "
            "run `lineage index --rebuild --yes`).",
        ),
        (
            {"parser_python": None},
            {"status": "unknown", "missing_components": ["parser_python"]},
            "The index is unknown (no metadata for parser_python): run `lineage index --force`.",
        ),
    ],
)
def test_the_verdict_stands_in_both_answers(
    repo: Repo, home: Path, changed: dict[str, Any], said_so: dict[str, Any], hint: str | None
) -> None:
    """Status, reason and missing components are fields; the hint says them as a sentence, with the command."""
    index(repo, home, **changed)
    for tool, arguments in (
        ("find_pattern", {"query": "timeout"}),
        ("explain_change", {"file": "src/tcp.py"}),
    ):
        meta = said(call(served(repo, home), tool, **arguments))["_meta"]
        assert meta["compatibility"] == said_so
        assert meta["hint"] == hint


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("find_pattern", {}, "`query`: is required"),
        ("find_pattern", {"query": 3}, "`query`: Input should be a valid string"),
        ("find_pattern", {"query": "x", "limit": 3}, "`limit`: there is no such argument"),
        ("find_pattern", {"query": "x", "k": "many"}, "`k`: Input should be a valid integer"),
        ("find_pattern", {"query": "x", "k": None}, "`k`: Input should be a valid integer"),
        (
            "find_pattern",
            {"query": "x", "no_rerank": "perhaps"},
            "`no_rerank`: Input should be a valid boolean",
        ),
        ("find_pattern", {"query": "x", "since": "soon"}, "'soon' is not a date or an age"),
        ("find_pattern", {"query": "x", "path": "!"}, "is not a path filter"),
        ("find_pattern", {"query": "x", "path": "app/[post-id]/"}, "is not a path filter"),
        ("find_pattern", {"query": "  "}, "The query is empty"),
        ("find_pattern", {"query": "x" * 100_001}, "The query is longer than 100,000 characters"),
        ("find_pattern", {"query": "x", "path": "*" * 10_001}, "filter is longer than 10,000 characters"),
        ("find_pattern", {"query": "x\udcff"}, r"The query has a part that is no text: '\udcff'"),
        (
            "find_pattern",
            {"query": "x", "language": "\ud800"},
            "The language filter has a part that is no text",
        ),
        ("find_pattern", {"query": "x", "since": "\udcff"}, "The since filter has a part that is no text"),
        ("find_pattern", {"query": "x", "path": "\udcff"}, "The path filter has a part that is no text"),
        ("find_pattern", {"query": "x", "author": "\udcff"}, "The author filter has a part that is no text"),
        ("explain_change", {}, "`file`: is required"),
        ("explain_change", {"file": ""}, "That is no file name"),
        ("explain_change", {"file": "\ud800"}, "That is no file name"),
        ("explain_change", {"file": "x" * 2_000_000}, "The file's name is longer than 10,000 characters"),
        ("explain_change", {"file": "src/tcp.py", "line_start": 0}, "Lines count from 1"),
        ("explain_change", {"file": "src/tcp.py", "line_start": 2, "line_end": 1}, "before it starts"),
        ("explain_change", {"file": "src/tcp.py", "lines": [1]}, "`lines`: there is no such argument"),
        ("explain_change", {"file": ["src/tcp.py"]}, "`file`: Input should be a valid string"),
    ],
)
def test_refusals(repo: Repo, home: Path, tool: str, arguments: dict[str, Any], says: str) -> None:
    """What cannot be asked is refused in words the model can act on, with the arguments there are."""
    index(repo, home)
    result = call(served(repo, home), tool, **arguments)
    assert result.is_error
    assert says in text(result)
    assert "pydantic" not in text(result) and "Error executing" not in text(result)


@pytest.mark.parametrize(
    "since",
    ["30d", "12h", "2w", "6m", "1y", "2019-12-31", "2019-12-31T10:00:00Z", "2019-12-31T10:00:00+02:00", None],
)
def test_every_form_of_since(repo: Repo, home: Path, since: str | None) -> None:
    """Ages, dates and RFC 3339 times all narrow; null does not."""
    index(repo, home)
    found = said(call(served(repo, home), "find_pattern", query="timeout", since=since))
    young = since is not None and not since.startswith("2019")
    assert len(found["hits"]) == (0 if young else 2)


@pytest.mark.parametrize(("k", "hits"), [(-3, 1), (0, 1), (1, 1), (2, 2), (99, 2)])
def test_k_is_clamped(repo: Repo, home: Path, k: int, hits: int) -> None:
    """A number of commits out of range is taken into it."""
    index(repo, home)
    assert len(said(call(served(repo, home), "find_pattern", query="timeout", k=k))["hits"]) == hits


def test_filters(repo: Repo, home: Path) -> None:
    """`path`, `author` and `language` narrow."""
    index(repo, home)
    asked = served(repo, home)
    for arguments, file in (({"path": "docs/"}, "docs/ü.md"), ({"language": "python"}, "src/tcp.py")):
        hits = said(call(asked, "find_pattern", query="timeout", **arguments))["hits"]
        assert [hit["file_path"] for hit in hits] == [file]
    assert said(call(asked, "find_pattern", query="timeout", author="nobody"))["hits"] == []


@pytest.mark.parametrize("tool", [("find_pattern", {"query": "x"}), ("explain_change", {"file": "a"})])
def test_outside_a_repository(tmp_path: Path, home: Path, tool: tuple[str, dict[str, Any]]) -> None:
    """In a directory that is no repository the answer says so."""
    result = call(lineage_server(Own(home), tmp_path), tool[0], **tool[1])
    assert result.is_error
    assert "is not in a git repository" in text(result)
