"""Tools of `lineage-mcp`, in this process: descriptions, schemas, answers and errors."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import anyio
import anyio.to_thread
import pytest
from mcp.client import Client
from mcp.server import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    REQUEST_TIMEOUT,
    CallToolResult,
    ListRootsResult,
    Root,
    TextContent,
    Tool,
)
from pydantic import BaseModel, FileUrl

from pipeline.git.errors import NotARepository
from serve.backend import InProcessBackend
from serve.commit_types import ShowAnswer
from serve.explain import target
from serve.find_types import PatternHit
from serve.mcp import lineage_server
from serve.mcp.answer_lists import answer_items
from serve.mcp.lineage_server import create_lineage_server
from serve.mcp.tools import RepositoryResolver
from tests.repos import Repo
from tests.serve.commands import read_output, refuse_to_read, run_captured
from tests.serve.mcp.clients import PROTOCOLS, call_tool, extract_structured_content, extract_text, run_client
from tests.serve.sample_index import build_index

# Arguments whose name and type say how to use them.
SELF_EXPLANATORY = {
    *("query", "language", "until", "author", "detail", "max_tokens", "file", "line_start", "include_diff"),
    *("ignore_whitespace", "follow_moves", "oldest", "limit"),
}
MAX_DEFINITION_TOKENS = 1_150
CHARS_PER_DEFINITION_TOKEN = 4


def create_server(repo: Repo, home: Path) -> MCPServer[Any]:
    return create_lineage_server(InProcessBackend(home), home, repo.path)


@pytest.fixture(scope="module")
def server(shared_repo: Repo, shared_index: Path) -> MCPServer[Any]:
    """Server of an indexed repository, which no test changes."""
    return create_server(shared_repo, shared_index)


def list_tools(repo: Repo, home: Path) -> dict[str, Tool]:
    async def read_tools(client: Client) -> Any:
        assert "find_pattern" in (client.instructions or "")
        return (await client.list_tools()).tools

    return {tool.name: tool for tool in run_client(create_server(repo, home), read_tools)}


def test_tools_are_fully_described(repo: Repo, home: Path) -> None:
    """All tools describe their use, one the inputs whose name does not, and say that they change nothing."""
    tools = list_tools(repo, home)
    described: set[str] = set()
    assert set(tools) == {"find_pattern", "explain_change", "search_changes", "show_commit"}
    for tool in tools.values():
        assert "Use it" in (tool.description or "")
        assert "Do not use it" in (tool.description or "")
        assert tool.annotations is not None
        assert tool.annotations.model_dump(exclude_none=True) == {
            "read_only_hint": True,
            "open_world_hint": False,
        }
        properties = tool.input_schema["properties"]
        assert all("type" in field for field in properties.values())
        described |= {name for name, field in properties.items() if "description" in field}
        undescribed = set(properties) - described - SELF_EXPLANATORY
        assert all(f"`{name}`" in (tool.description or "") for name in undescribed), undescribed
    assert not described & SELF_EXPLANATORY
    defaults = {
        name: field.get("default")
        for name, field in tools["explain_change"].input_schema["properties"].items()
    }
    assert {name: value for name, value in defaults.items() if value is not None} == {
        "line_start": 1,
        "line_end": 0,
        "k": 5,
        "include_diff": True,
        "detail": "normal",
        "include_evolution": True,
    }
    assert tools["find_pattern"].input_schema["required"] == ["query"]


def test_only_tools_are_advertised(server: MCPServer[Any]) -> None:
    """The server advertises no prompts and no resources, as it has none."""

    async def read_capabilities(client: Client) -> Any:
        return client.server_capabilities

    for mode in PROTOCOLS:
        capabilities = run_client(server, read_capabilities, mode)
        assert capabilities.tools is not None
        assert capabilities.prompts is None and capabilities.resources is None


def test_output_schema_names_the_fields(repo: Repo, home: Path) -> None:
    """The output schema has the names of the main fields only, because models read it with every request."""
    tools = list_tools(repo, home)
    for name, tool in tools.items():
        field_names = ["commit", "files", "diff", "content"] if name == "show_commit" else ["hits", "_meta"]
        schema = tool.output_schema
        assert schema == {"type": "object", "properties": {field: {} for field in field_names}}
    assert {"commit", "files", "diff", "content"} <= {field.name for field in fields(ShowAnswer)}


def test_definitions_are_short(repo: Repo, home: Path) -> None:
    """All definitions together are few tokens, as clients send them to the model with every request."""
    definitions = [
        tool.model_dump_json(by_alias=True, exclude_none=True) for tool in list_tools(repo, home).values()
    ]
    assert sum(map(len, definitions)) / CHARS_PER_DEFINITION_TOKEN <= MAX_DEFINITION_TOKENS


def test_structured_content(server: MCPServer[Any]) -> None:
    """Structured content has the documented fields and no empty ones."""
    find_answer = extract_structured_content(
        call_tool(server, "find_pattern", query="timeout in `connect`", k=1)
    )
    assert list(find_answer) == ["hits", "_meta"]
    assert list(find_answer["hits"][0]) == [
        field.name
        for field in fields(PatternHit)
        if field.name
        not in {"author_date", "repository", "references", "release", "also", "reverted_by", "changelog"}
    ]
    assert find_answer["_meta"]["compatibility"] == {"status": "compatible"}
    assert set(find_answer["_meta"]) == {"index_status", "hint", "compatibility", "query_profile"}
    explain_answer = extract_structured_content(
        call_tool(server, "explain_change", file="src/tcp.py", symbol=None, include_diff=False)
    )
    assert "diff_excerpt" not in explain_answer["hits"][0]
    assert "evolution" not in explain_answer["_meta"]["explain"]
    assert "related_commits" not in explain_answer["_meta"]["explain"]


def test_several_questions(server: MCPServer[Any]) -> None:
    """One call answers several questions in order; of a patch that an earlier answer shows, the place is named.

    The first hit of an answer is shown in full if it was a later one, which is reduced.
    """
    questions = ["timeout in `connect`", "document the timeout"]
    alone = [call_tool(server, "find_pattern", query=question) for question in questions]
    together = call_tool(server, "find_pattern", query=questions[0], more_queries=questions[1:])
    content = extract_structured_content(together)
    (other,) = content.pop("more")
    assert content == extract_structured_content(alone[0])
    assert other == {"query": questions[1], **extract_structured_content(alone[1])}
    first_text, second_text = extract_text(together).split("\n\n")
    assert first_text == f"Question: {questions[0]}\n{extract_text(alone[0])}"
    assert second_text.startswith(f"Question: {questions[1]}\n1. ")
    assert {hit["commit_sha"] for hit in other["hits"]} <= {hit["commit_sha"] for hit in content["hits"]}
    assert other["hits"][0]["commit_sha"] == content["hits"][1]["commit_sha"]
    assert second_text.count("```diff") == 1
    assert second_text.count("shown above (query 1, hit 1)") == len(other["hits"]) - 1
    shortened = call_tool(
        server, "find_pattern", query=questions[0], more_queries=questions[1:], max_tokens=60
    )
    assert len(extract_text(shortened)) < len(extract_text(together))
    shortest = call_tool(server, "find_pattern", query=questions[0], more_queries=questions[1:], max_tokens=1)
    assert len(extract_text(shortest)) <= len(extract_text(shortened))


def test_failed_and_omitted_questions(server: MCPServer[Any]) -> None:
    """A question that fails has its error in its place, and questions above the limit are named."""
    questions = ["document the timeout", " ", *(f"connect {number}" for number in range(7)), "left", "out"]
    result = call_tool(server, "find_pattern", query="timeout", k=1, more_queries=questions)
    blocks = extract_text(result).split("\n\n")
    error = "The query is empty. Describe in a few words what you are looking for."
    assert [block.split("\n")[0] for block in blocks[:-1]] == [
        *(f"Question: {question}" for question in ["timeout", *questions[:9]])
    ]
    assert blocks[2] == f"Question:  \nError: {error}"
    assert blocks[-1] == "Note: Left out, as a call answers at most 10: left; out"
    content = extract_structured_content(result)
    assert content["more"][1] == {"query": " ", "error": error}
    assert [len(answer.get("hits", ())) for answer in content["more"]] == [1, 0, *[1] * 7]
    assert (content["left_out"], content["left_out_count"]) == (["left", "out"], 2)
    result = call_tool(server, "find_pattern", query=" ", k=1, more_queries=["timeout"])
    content = extract_structured_content(result)
    assert (content["hits"], content["_meta"], content["error"]) == ([], {}, error)
    assert len(content["more"][0]["hits"]) == 1
    assert extract_text(result).startswith(f"Question:  \nError: {error}\n\nQuestion: timeout\n1. ")


def test_questions_that_all_fail(server: MCPServer[Any]) -> None:
    """If all questions fail, so does the call, with each error once."""
    result = call_tool(server, "find_pattern", query=" ", more_queries=["\udcff", ""])
    assert result.is_error
    assert extract_text(result).count("The query is empty.") == 1
    assert "The query contains invalid text" in extract_text(result)


@pytest.mark.parametrize("include_related_files", [False, True])
def test_unreadable_file(
    server: MCPServer[Any], monkeypatch: pytest.MonkeyPatch, include_related_files: bool
) -> None:
    """If a file exists but cannot be read, the call fails with the reason."""
    monkeypatch.setattr(target, "_read_regular_file", refuse_to_read)
    result = call_tool(
        server, "explain_change", file="src/tcp.py", include_related_files=include_related_files
    )
    assert result.is_error and "src/tcp.py cannot be read: Permission denied." in extract_text(result)


def test_equal_hints_of_questions(repo: Repo, home: Path) -> None:
    """The text shows a hint that the answers to all questions have once; the structured content has it in each."""
    server = create_server(repo, home)
    result = call_tool(server, "find_pattern", query="timeout", more_queries=["connect", "tcp"])
    content = extract_structured_content(result)
    (hint,) = {answer["_meta"]["hint"] for answer in (content, *content["more"])}
    assert extract_text(result).count(f"Note: {hint}") == 1


def test_search_changes(server: MCPServer[Any], shared_repo: Repo) -> None:
    """The text has the count and the commits with quoted lines, or what is left out; wrong expressions are named."""
    result = call_tool(server, "search_changes", pattern="timeout", oldest=True, limit=1)
    sha = shared_repo.git("rev-parse", "HEAD~1")
    assert extract_text(result) == (
        f"2 commits, first 1 shown, oldest first\n1. {sha[:10]} 2020-01-01 Add a timeout to connect\n"
        "file: src/tcp.py +1\n> +2 timeout()\n"
        f"Newest: {shared_repo.git('rev-parse', 'HEAD')[:10]} 2020-01-01 Describe the timeout ✓"
    )
    assert extract_text(call_tool(server, "search_changes", pattern="absent")) == (
        "0 commits\n"
        "Note: Not searched: commits that HEAD does not reach, ignored paths, binary files, and what merges bring from "
        "their parents."
    )
    content = extract_structured_content(result)
    assert [hit["commit_sha"] for hit in content["hits"]] == [sha]
    assert content["_meta"]["search"]["commits"] == 2
    filtered: dict[str, Any] = {
        "path": "*.py",
        "since": "2020",
        "until": "2021",
        "author": "ada",
        "added": True,
        "range": "HEAD~1",
    }
    result = call_tool(server, "search_changes", pattern="time+out", regex=True, **filtered)
    assert len(extract_structured_content(result)["hits"]) == 1
    error = call_tool(server, "search_changes", pattern="(a", regex=True)
    assert error.is_error and "syntax of RE2" in extract_text(error)


def test_show_commit(server: MCPServer[Any], shared_repo: Repo) -> None:
    """The text has the quoted message, the files, and a fenced diff or file; errors say what to do."""
    sha, parent = shared_repo.git("rev-parse", "HEAD", "HEAD~1").split()
    commit = (
        f"{sha} 2020-01-01 Ada Lovelace <ada@example.org>; parents: {parent[:10]}\n> Describe the timeout ✓\n"
    )
    result = call_tool(server, "show_commit", commit="HEAD", path="docs/ü.md")
    assert extract_text(result) == (
        commit + "files: docs/ü.md added +1\n```diff\n@@ -0,0 +1 @@\n+# timeout ü\n```"
    )
    assert extract_structured_content(result)["commit"]["commit_sha"] == sha
    result = call_tool(server, "show_commit", commit="HEAD:src/tcp.py", lines="2:")
    assert extract_text(result) == commit + "file: src/tcp.py, lines 2-2 of 2\n```\n    timeout()\n```"
    error = call_tool(server, "show_commit", commit="HEAD", path="src/udp.py")
    assert error.is_error and "has no file 'src/udp.py'" in extract_text(error)


def test_list_of_patterns(server: MCPServer[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pattern has the answer of a call about it alone, or its error; the limit is that of each pattern."""
    alone = [call_tool(server, "search_changes", pattern=text, limit=1) for text in ("timeout", "absent")]
    result = call_tool(server, "search_changes", pattern=["timeout", "", "absent"], limit=1)
    first, second, third = extract_text(result).split("\n\n")
    assert (first, third) == (
        f"pattern: timeout\n{extract_text(alone[0])}",
        f"pattern: absent\n{extract_text(alone[1])}",
    )
    results = extract_structured_content(result)["results"]
    assert results[0] == {"request": {"pattern": "timeout"}, **extract_structured_content(alone[0])}
    assert results[0]["_meta"]["search"]["last"]["commit_subject"] == "Add a timeout to connect"
    assert second == f"pattern: \nError: {results[1]['error']}" and "empty" in second
    result = call_tool(server, "search_changes", pattern=["timeout", "timeout()"], limit=2)
    assert [len(each["hits"]) for each in extract_structured_content(result)["results"]] == [2, 1]
    monkeypatch.setattr(lineage_server, "MAX_COMMITS", 3)
    result = call_tool(server, "search_changes", pattern=["timeout", "timeout()"], limit=2)
    assert [len(each["hits"]) for each in extract_structured_content(result)["results"]] == [1, 1]


@pytest.mark.parametrize("pattern", ["[]", "null", "[1]", "{}", "[" * 5_000])
def test_pattern_that_is_json(server: MCPServer[Any], pattern: str) -> None:
    """A text in the syntax of JSON is searched as it is."""
    content = extract_structured_content(call_tool(server, "search_changes", pattern=pattern))
    assert content["_meta"]["search"]["commits"] == 0


def test_paths_that_a_commit_does_not_change(server: MCPServer[Any]) -> None:
    """For one path, the error names the files that the commit changes; for several, it does not repeat them."""
    text = extract_text(call_tool(server, "show_commit", commit="HEAD", path="src/tcp.py"))
    assert "does not change 'src/tcp.py'.\n  It changes docs/ü.md." in text
    text = extract_text(call_tool(server, "show_commit", commit="HEAD", path=["src/tcp.py", "docs/ü.md"]))
    assert "does not change 'src/tcp.py'." in text
    assert "It changes" not in text


def test_pairs_of_commits_and_paths(server: MCPServer[Any]) -> None:
    """Of several commits and paths, pairs of a commit and a file that it does not change are only counted."""
    pairs: dict[str, Any] = {"commit": ["HEAD", "HEAD~1"], "path": ["src/tcp.py", "docs/ü.md"]}
    result = call_tool(server, "show_commit", **pairs)
    content = extract_structured_content(result)
    first, second, absent = content["results"]
    assert first["request"] == {"commit": "HEAD", "path": "docs/ü.md"}
    assert second["request"] == {"commit": "HEAD~1", "path": "src/tcp.py"}
    assert "has no file 'docs/ü.md'" in absent["error"]
    assert content["skipped_count"] == 1 and "left_out" not in content
    assert extract_text(result).endswith(
        "\n\nNote: Not shown, as the commit does not change the file: 1 pair."
    )
    pairs = {"commit": ["HEAD", "@"], "path": ["src/tcp.py", "./src/tcp.py"]}
    error = call_tool(server, "show_commit", **pairs)
    assert error.is_error and "does not change" in extract_text(error)


def test_list_in_other_forms(server: MCPServer[Any], shared_repo: Repo) -> None:
    """A list in JSON is a list unless a change has the text; a list of one is its item, an empty path none."""
    as_list = call_tool(server, "search_changes", pattern=["timeout", "absent"])
    assert call_tool(server, "search_changes", pattern='["timeout", "absent"]') == as_list
    alone = call_tool(server, "search_changes", pattern="timeout")
    assert call_tool(server, "search_changes", pattern=["timeout", "timeout"]) == alone
    commit = call_tool(server, "show_commit", commit="HEAD")
    assert call_tool(server, "show_commit", commit=["HEAD"], path=[]) == commit
    names = [shared_repo.git("rev-parse", "HEAD"), "HEAD"]
    text = extract_text(call_tool(server, "show_commit", commit=names, max_tokens=1))
    assert text.count(f" {shared_repo.git('log', '-1', '--format=%s')}\n") == 2
    assert text.count(shared_repo.git("log", "-1", "--format=%an")) == 1


def test_notes_of_a_list(server: MCPServer[Any]) -> None:
    """A note that an earlier item of a list has is not repeated in the text, but in the structured content."""
    result = call_tool(server, "search_changes", pattern=["absent", "missing"])
    limitations = {
        answer["_meta"]["search"]["limitation"] for answer in extract_structured_content(result)["results"]
    }
    (limitation,) = limitations
    assert extract_text(result).count(limitation) == 1


def test_problem_of_a_list(server: MCPServer[Any]) -> None:
    """The error about an item of a list does not say that the list should be a text."""
    text = extract_text(call_tool(server, "search_changes", pattern=["timeout", 1]))
    assert "`pattern.1`: Input should be a valid string, not 1" in text and text.count("valid string") == 1


def test_schemas_have_one_type_per_argument(repo: Repo, home: Path) -> None:
    """No schema of an argument has alternatives: some clients refuse them."""
    for tool in list_tools(repo, home).values():
        schema = json.dumps(tool.input_schema)
        assert not re.search(r'"(?:anyOf|oneOf|allOf)"|"type": \[', schema), tool.name


def test_limits_of_lists(server: MCPServer[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Items above the limit are named; if all items fail, or there is none, the call fails with each error once."""
    result = call_tool(server, "search_changes", pattern=[f"absent{number}" for number in range(12)])
    content = extract_structured_content(result)
    assert len(content["results"]) == 10
    assert content["left_out"] == [{"pattern": "absent10"}, {"pattern": "absent11"}]
    note = "Note: Left out, as a call answers at most 10: pattern: absent10; pattern: absent11"
    assert extract_text(result).endswith(f"\n\n{note}")
    result = call_tool(server, "search_changes", pattern=["(a", "(b", "(a"], regex=True)
    assert result.is_error and extract_text(result).count("'(a' is not valid") == 1
    assert "'(b' is not valid" in extract_text(result)
    assert "The list `commit` is empty." in extract_text(call_tool(server, "show_commit", commit=[]))
    assert "The list `pattern` is empty." in extract_text(call_tool(server, "search_changes", pattern=[]))
    many = [f"absent{number}" for number in range(2_000)]
    result = call_tool(server, "search_changes", pattern=many)
    content = extract_structured_content(result)
    assert (len(content["left_out"]), content["left_out_count"]) == (10, 1_990)
    assert extract_text(result).endswith("; pattern: absent19 and 1,980 more")
    monkeypatch.setattr(lineage_server, "MAX_COMMITS", 1)
    content = extract_structured_content(call_tool(server, "search_changes", pattern="timeout", limit=500))
    assert len(content["hits"]) == 1


def test_only_named_pairs_are_built(server: MCPServer[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thousand commits and a thousand paths, only the pairs that are answered or named are built."""
    built: list[Mapping[str, str]] = []

    def record_items(items: Iterable[Mapping[str, str]], *arguments: Any) -> CallToolResult:
        def iterate() -> Iterator[Mapping[str, str]]:
            for item in items:
                built.append(item)
                yield item

        return answer_items(iterate(), *arguments)

    monkeypatch.setattr(lineage_server, "answer_items", record_items)
    names = [f"absent{number}" for number in range(1_000)]
    result = call_tool(server, "show_commit", commit=["HEAD~1", *names], path=["src/tcp.py", *names])
    assert len(built) == 20
    assert extract_structured_content(result)["left_out_count"] == 1_001**2 - 10
    note = "; commit: HEAD~1, path: absent18 and 1,001,981 more"
    assert extract_text(result).endswith(note)


def test_lists_of_commits_and_paths(server: MCPServer[Any], shared_repo: Repo) -> None:
    """Each path is shown in each commit; of several commits, the text is short, and errors stay apart."""
    alone = call_tool(server, "show_commit", commit="HEAD~1", path="src/tcp.py")
    result = call_tool(server, "show_commit", commit=["HEAD~1", "nosuch"], path=["src/tcp.py", "docs/ü.md"])
    blocks = extract_text(result).split("\n\n")
    sha = shared_repo.git("rev-parse", "HEAD~1")
    _, *lines = extract_text(alone).split("\n")
    assert blocks[0].split("\n") == [
        "commit: HEAD~1, path: src/tcp.py",
        f"{sha[:10]} 2020-01-01 Ada Lovelace",
        *(line for line in lines if not line.startswith(" ")),
    ]
    assert [block.partition("\n")[2].partition(" ")[0] for block in blocks[1:]] == ["Error:"] * 3
    assert "has no file 'docs/ü.md'" in blocks[1] and "no commit 'nosuch'" in blocks[3]
    results = extract_structured_content(result)["results"]
    assert results[0] == {
        "request": {"commit": "HEAD~1", "path": "src/tcp.py"},
        **extract_structured_content(alone),
    }
    assert results[0]["commit"]["commit_sha"] == sha


def test_structured_content_of_several_commits(repo: Repo, home: Path) -> None:
    """The structured content of a list has the files of the text, so that it is about as long."""
    for commit in range(2):
        for number in range(9):
            repo.write(f"{number}.py", f"{commit}\n")
        repo.commit(f"Change {commit}")
    content = extract_structured_content(
        call_tool(create_server(repo, home), "show_commit", commit=["HEAD", "HEAD~1"])
    )
    assert [(len(item["files"]), item["file_count"]) for item in content["results"]] == [(5, 9)] * 2


def test_list_of_commits_within_max_tokens(repo: Repo, home: Path) -> None:
    """The answers without their headings share `max_tokens`; a commit that was shown before has its subject only."""
    lines = "".join(f"line {number} of the file\n" for number in range(200))
    repo.commit_file("a.py", lines, "Add it\n\nFor reasons.")
    repo.commit_file("b.py", "b = 1\n", "Add another")
    server = create_server(repo, home)

    def show(*commits: str) -> str:
        return extract_text(call_tool(server, "show_commit", commit=list(commits), max_tokens=600))

    blocks = show("HEAD~1:a.py", "HEAD", "HEAD^:a.py").split("\n\n")
    assert 500 * 3 < sum(len(block.partition("\n")[2]) for block in blocks) < 600 * 3
    assert len(show("HEAD", "HEAD~1:a.py")) == len(show("HEAD~1:a.py", "HEAD"))
    assert show("HEAD~1:a.py", "HEAD~1").count("> For reasons.") == 1
    repo.commit_file("c.py", lines, "Add a third\n\n" + "Because it is needed. " * 100)
    assert len(show("HEAD", "HEAD:c.py")) > 550 * 3  # neither message nor file leaves what the other needs


def test_symbol(server: MCPServer[Any], shared_repo: Repo) -> None:
    """`symbol` gives the history of a symbol, in a file if one is named; the structured content has it, too."""
    sha = shared_repo.git("rev-parse", "HEAD~1")
    for arguments in ({}, {"file": None}, {"file": "src/tcp.py"}, {"file": "tcp.py"}, {"max_tokens": 1}):
        result = call_tool(server, "explain_change", symbol="connect", **arguments)
        assert extract_text(result).startswith(
            "symbol: src/tcp.py:connect, src/tcp.py:1-2\n1 commit: 1 introduced\n"
            f"- introduced {sha[:10]} 2020-01-01 Add a timeout to connect | src/tcp.py:connect"
        )
        content = extract_structured_content(result)
        assert [hit["step"] for hit in content["hits"]] == ["introduced"]
        assert content["_meta"]["trace"]["commits"] == 1
    error = call_tool(server, "explain_change", symbol="connect", file="src/udp.py")
    assert error.is_error and "Symbols of this name: src/tcp.py:connect." in extract_text(error)


def test_related_files(server: MCPServer[Any]) -> None:
    """`include_related_files` adds owners and hot spots of the file, of the symbol's file, or of a directory."""
    related = (
        "Files that change with src/tcp.py (1 commit):\n"
        "Owners by surviving lines: Ada Lovelace 100%\n"
        "Recent work since 2019-01-01: Ada Lovelace 100% (1 commit)\n"
        "Hot spots: connect 1 commit, last 2020-01-01"
    )
    for arguments in ({"file": "src/tcp.py"}, {"symbol": "connect", "file": "tcp.py"}):
        plain = extract_text(call_tool(server, "explain_change", **arguments))
        result = call_tool(server, "explain_change", include_related_files=True, **arguments)
        assert extract_text(result) == f"{plain}\n{related}"
        content = extract_structured_content(result)["_meta"]["related"]
        assert (content["path"], content["commits"], content["files"]) == ("src/tcp.py", 1, [])
        assert content["owners"][0]["lines"] == 2
    options: dict[str, Any] = {"file": "src", "include_related_files": True}
    assert "Files that change with src (1 commit):" in extract_text(
        call_tool(server, "explain_change", **options)
    )
    options |= {"file": "src/tcp.py", "max_tokens": 320}
    assert extract_text(call_tool(server, "explain_change", **options)) == (
        f"{extract_text(call_tool(server, 'explain_change', file='src/tcp.py', max_tokens=20))}\n{related}"
    )


def test_related_files_of_a_missing_file_or_index(server: MCPServer[Any], tmp_path: Path, home: Path) -> None:
    """The explanation is still given, and a note says once why there are no related files."""
    result = call_tool(server, "explain_change", file="src/udp.py", include_related_files=True)
    note = "src/udp.py does not exist in HEAD and never did. Did you mean src/tcp.py?"
    assert extract_text(result).count(note) == 1 and not result.is_error
    assert extract_structured_content(result)["_meta"]["related"] == {"limitation": note}
    result = call_tool(server, "explain_change", file="nosuch", include_related_files=True)
    assert extract_text(result).count("nosuch does not exist in HEAD and never did.") == 1
    repo = Repo.create(tmp_path / "new")
    repo.commit_file("a.py", "a = 1\n", "Add it")
    result = call_tool(create_server(repo, home), "explain_change", file="a.py", include_related_files=True)
    assert "Add it" in extract_text(result)
    assert "lineage index" in extract_text(result).rpartition("Note: No related files: ")[2]


def test_repositories(repo: Repo, home: Path, tmp_path: Path) -> None:
    """`repositories` takes names, one name or `*`, and each hit names its repository; unknown names are an error."""
    other = Repo.create(tmp_path / "other")
    other.commit_file("a.py", "timeout = 2\n", "Raise the timeout")
    for each in (repo, other):
        build_index(each, home)
    server = create_server(repo, home)

    def find_repositories(repositories: object) -> set[str]:
        answer = call_tool(server, "find_pattern", query="timeout", repositories=repositories)
        return {hit["repository"] for hit in extract_structured_content(answer)["hits"]}

    assert find_repositories("*") == find_repositories(["*"]) == {"repo", "other"}
    assert find_repositories(["other"]) == find_repositories("other") == {"other"}
    assert find_repositories([".", "../other"]) == {"repo", "other"}
    error = call_tool(server, "find_pattern", query="timeout", repositories=["absent"])
    assert error.is_error and "No indexed repository is called 'absent'" in extract_text(error)
    tool = list_tools(repo, home)["find_pattern"]
    assert "repositories" not in (tool.description or "") and tool.output_schema is not None


def test_repository_argument(repo: Repo, home: Path, tmp_path: Path) -> None:
    """`repository` is the name of an index or a path; a server outside of all repositories says which exist."""
    other = Repo.create(tmp_path / "other")
    other.commit_file("a.py", "timeout = 2\n", "Raise the timeout")
    build_index(other, home)
    for server in (create_server(repo, home), create_lineage_server(InProcessBackend(home), home, tmp_path)):
        for name in ("other", str(other.path)):
            answer = call_tool(server, "find_pattern", query="timeout", repository=name)
            assert [hit["file_path"] for hit in extract_structured_content(answer)["hits"]] == ["a.py"]
        explained = call_tool(server, "explain_change", file="a.py", repository="other")
        assert extract_structured_content(explained)["hits"][0]["blame_lines"] == [1]
    error = extract_text(call_tool(server, "find_pattern", query="timeout"))
    assert "is not in a git repository" in error and "Indexed repositories: other." in error


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("find_pattern", {"query": "timeout"}),
        ("explain_change", {"file": "a.py", "include_related_files": True}),
        ("explain_change", {"symbol": "wait"}),
        ("explain_change", {"symbol": "absent"}),
        ("search_changes", {"pattern": "timeout"}),
        ("search_changes", {"pattern": ["timeout", "("]}),
    ],
)
@pytest.mark.parametrize("is_behind", [False, True])
def test_commands_name_the_repository(
    repo: Repo, home: Path, tmp_path: Path, tool: str, arguments: dict[str, Any], is_behind: bool
) -> None:
    """Commands in hints and errors have the path of the repository, named in the call or by the server's argument."""
    other = Repo.create(tmp_path / "an other")
    other.commit_file("a.py", "def wait():\n    timeout = 1\n", "Add a timeout")
    if is_behind:
        build_index(other, home)
        other.commit_file("a.py", "def wait():\n    timeout = 2\n", "Raise the timeout")
    for directory, names in ((repo, {"repository": str(other.path)}), (other, {})):
        result = call_tool(create_server(directory, home), tool, **arguments, **names)
        assert "`lineage index" in extract_text(result)
        texts = extract_text(result) + json.dumps(result.structured_content)
        for command in re.findall(r"`(lineage index[^`]*)`", texts):
            assert command.endswith(f" '{other.path}'")


@pytest.mark.parametrize("file", ["absent.py", "b.py"])
def test_hints_about_files_name_the_repository(
    repo: Repo, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    """The command in the hint about a file that a commit lacks or does not change works from any directory."""
    other = Repo.create(tmp_path / "an other")
    other.commit_file("b.py", "b = 1\n")
    other.commit_file("a.py", "a = 1\n")
    result = call_tool(
        create_server(repo, home), "show_commit", commit="HEAD", path=file, repository=str(other.path)
    )
    *_, command = re.findall(r"`lineage ([^`]*)`", extract_text(result))
    read_output(capsys, *shlex.split(command))
    _, _, error = run_captured("show", "HEAD", file, "--repository", other.path, cwd=tmp_path)
    assert f"`lineage {command}`" in error


def test_errors_of_commits_name_the_repository(repo: Repo, home: Path) -> None:
    """The git command in the error about a damaged commit has the path, also if it is one of several commits."""
    sha = repo.git("rev-parse", "HEAD~1")
    (repo.path / ".git" / "objects" / sha[:2] / sha[2:]).unlink()
    for commits in ("HEAD~1", ["HEAD~1", "HEAD"]):
        result = call_tool(create_server(repo, home), "show_commit", commit=commits)
        assert f"`git -C {repo.path} fsck`" in extract_text(result)
    assert f"`git -C {repo.path} fsck`" in extract_structured_content(result)["results"][0]["error"]


def test_roots_of_the_client(home: Path, tmp_path: Path) -> None:
    """Outside of a repository, the server asks for a client's roots and takes the first one in a repository."""
    project = Repo.create(tmp_path / "my project")
    project.commit_file("a.py", "timeout = 2\n", "Raise the timeout")
    server = create_lineage_server(InProcessBackend(home), home, tmp_path)

    async def list_roots(_: Any) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=FileUrl(path.as_uri())) for path in (tmp_path, project.path)])

    async def explain() -> CallToolResult:
        async with Client(server, mode="legacy", list_roots_callback=cast(Any, list_roots)) as client:
            return await client.call_tool("explain_change", {"file": "a.py"})

    assert extract_structured_content(anyio.run(explain))["hits"][0]["blame_lines"] == [1]


@dataclass(frozen=True)
class RootsSession:
    """Session of a client that sends `answer` for its roots, which may be invalid, or nothing if it is None."""

    answer: Any

    def check_client_capability(self, _: object) -> bool:
        return True

    async def send_request(self, _: object, result_type: type[BaseModel], timeout: float) -> BaseModel:
        if self.answer is None:
            assert timeout < 10
            raise MCPError(REQUEST_TIMEOUT, "Timed out")
        return result_type.model_validate(self.answer)


@pytest.mark.parametrize("uri", ["vscode-remote://ssh/home/x", "file:///%00", "file:///absent", "http://["])
def test_roots_that_are_no_local_directories(home: Path, repo: Repo, tmp_path: Path, uri: str) -> None:
    """Roots that are no local directories are skipped."""
    session = RootsSession({"roots": [{"uri": uri}, {"uri": repo.path.as_uri()}]})
    resolve = partial(RepositoryResolver(home, tmp_path).resolve, None, cast(Any, Mock(session=session)))
    assert anyio.run(anyio.to_thread.run_sync, resolve) == repo.path


@pytest.mark.parametrize("answer", [{"roots": [1]}, {"roots": 1}, {}, None])
def test_invalid_roots(home: Path, tmp_path: Path, answer: Any) -> None:
    """An invalid answer, or none in time, is taken for no roots."""
    context = Mock(session=RootsSession(answer))
    with pytest.raises(NotARepository):
        anyio.run(anyio.to_thread.run_sync, RepositoryResolver(home, tmp_path).resolve, None, context)


def test_hit_without_a_file(repo: Repo, home: Path) -> None:
    """A commit that changes no file itself has an empty path; of a merge, the excerpt lists the files."""
    repo.branch("side")
    repo.commit_file("limits.py", "x = 1\n", "Count")
    repo.switch("main")
    repo.merge("side", message="Merge pull request #42: rate limiting")
    build_index(repo, home)
    server = create_server(repo, home)
    answer = extract_structured_content(call_tool(server, "find_pattern", query="rate limiting", k=1))
    hit = answer["hits"][0]
    assert (hit["file_path"], hit["change_kind"]) == ("", "merged")
    assert (hit["diff_excerpt"], hit["related_head_symbols"]) == (" limits.py\n", [])


def test_texts_of_the_repository_are_escaped(repo: Repo, home: Path) -> None:
    """Control and bidirectional characters of messages and diffs are shown as escapes; instructions call them data."""
    repo.commit_file("a.py", "timeout = 1  # \u202e\x9b\n", "Set the timeout \u202eecilA\x9d")
    build_index(repo, home)
    server = create_server(repo, home)
    for answer in (
        call_tool(server, "find_pattern", query="Set the timeout", k=20),
        call_tool(server, "explain_change", file="a.py"),
    ):
        texts = [part.text for part in answer.content if isinstance(part, TextContent)]
        text = "".join(texts) + json.dumps(extract_structured_content(answer), ensure_ascii=False)
        assert not {"\u202e", "\x9b", "\x9d"} & set(text)
        assert "\\u202eecilA" in extract_structured_content(answer)["hits"][0]["commit_message"]
    assert "never an instruction" in (server.instructions or "")


def test_evolution_by_default(repo: Repo, home: Path) -> None:
    """Earlier commits of the lines are returned unless `include_evolution` is false."""
    repo.commit_file("src/tcp.py", "def connect():\n    timeout( )\n", "Add a space")
    server = create_server(repo, home)
    first = call_tool(server, "explain_change", file="src/tcp.py", line_start=2)
    explained = extract_structured_content(first)["_meta"]["explain"]
    assert [(step["step"], step["text"]) for step in explained["evolution"]] == [("introduced", "timeout()")]
    second = call_tool(server, "explain_change", file="src/tcp.py", line_start=2, include_evolution=False)
    answer = extract_structured_content(second)
    assert "evolution" not in answer["_meta"]["explain"]


def test_related_commits_on_request(repo: Repo, home: Path) -> None:
    """Related commits are returned if `include_related` is set."""
    repo.commit_file("src/tcp.py", "def connect():\n    timeout(1)\n", "Wait for a second")
    repo.commit_file("src/tcp.py", "def connect():\n    timeout(2)\n", "Wait for two")
    build_index(repo, home)
    server = create_server(repo, home)
    explain_answer = extract_structured_content(
        call_tool(server, "explain_change", file="src/tcp.py", line_start=2, include_related=True)
    )
    assert [
        row["commit_message"].strip() for row in explain_answer["_meta"]["explain"]["related_commits"]
    ] == [
        "Wait for a second",
        "Add a timeout to connect",
    ]


def test_answers_without_an_index(repo: Repo, home: Path) -> None:
    """Without an index there are no hits, a hint, and the compatibility is unknown; explain_change works."""
    find_answer = extract_structured_content(
        call_tool(create_server(repo, home), "find_pattern", query="timeout")
    )
    assert find_answer["hits"] == []
    assert "lineage index" in find_answer["_meta"]["hint"]
    assert find_answer["_meta"]["compatibility"]["status"] == "unknown"
    explain_answer = extract_structured_content(
        call_tool(create_server(repo, home), "explain_change", file="src/tcp.py")
    )
    assert len(explain_answer["hits"]) == 1


@pytest.mark.parametrize("more_queries", [[], ["connect"]])
def test_needs_rebuild_is_invalid_params(repo: Repo, home: Path, more_queries: list[str]) -> None:
    """With vectors of another model find_pattern fails with `invalid_params` and a command; explain_change works."""
    build_index(repo, home, embedding_model="another")

    async def call_find_pattern(client: Client) -> Any:
        with pytest.raises(MCPError) as error_info:
            await client.call_tool("find_pattern", {"query": "timeout", "more_queries": more_queries})
        return error_info.value.error

    error = run_client(create_server(repo, home), call_find_pattern)
    assert error.code == INVALID_PARAMS
    assert "lineage index --rebuild --yes" in error.message
    explain_answer = extract_structured_content(
        call_tool(create_server(repo, home), "explain_change", file="src/tcp.py")
    )
    assert explain_answer["_meta"]["compatibility"]["status"] == "needs_rebuild"


@pytest.mark.parametrize(
    ("metadata", "compatibility", "hint"),
    [
        ({}, {"status": "compatible"}, None),
        ({"parser_java": "0"}, {"status": "compatible"}, None),
        (
            {"words_version": "0"},
            {
                "status": "query_compatible_needs_refresh",
                "reason": "words_version 0, now 1; run `lineage index --force`",
            },
            "The index is query-compatible, refresh recommended (words_version 0, now 1; "
            "run `lineage index --force`).",
        ),
        (
            {"parser_python": None},
            {"status": "unknown", "missing_components": ["parser_python"]},
            "The index is unknown (no metadata for parser_python): run `lineage index --force`.",
        ),
    ],
)
def test_both_answers_have_the_compatibility_verdict(
    repo: Repo, home: Path, metadata: dict[str, Any], compatibility: dict[str, Any], hint: str | None
) -> None:
    """Status, reason and missing components are fields; the hint has them as a sentence with the command."""
    build_index(repo, home, **metadata)
    expected = json.loads(json.dumps([compatibility, hint]).replace("--force", f"--force {repo.path}"))
    for tool, arguments in (
        ("find_pattern", {"query": "timeout", "no_rerank": True}),
        ("explain_change", {"file": "src/tcp.py"}),
    ):
        meta = extract_structured_content(call_tool(create_server(repo, home), tool, **arguments))["_meta"]
        assert [meta["compatibility"], meta["hint"]] == expected


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("find_pattern", {}, "`query`: is required"),
        ("find_pattern", {"query": 3}, "`query`: Input should be a valid string"),
        ("find_pattern", {"query": "x", "limit": 3}, "`limit`: there is no such argument"),
        ("find_pattern", {"query": "x", "k": "many"}, "`k`: Input should be a valid integer"),
        ("find_pattern", {"query": "x", "k": None}, "`k`: Input should be a valid integer"),
        ("find_pattern", {"query": "x", "k": True}, "`k`: Input should be a valid integer"),
        ("find_pattern", {"query": "x", "max_tokens": True}, "`max_tokens`: Input should be a valid integer"),
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
        ("find_pattern", {"query": "x\udcff"}, r"The query contains invalid text: '\udcff'"),
        (
            "find_pattern",
            {"query": "x", "language": "\ud800"},
            "The language filter contains invalid text",
        ),
        ("find_pattern", {"query": "x", "since": "\udcff"}, "The since filter contains invalid text"),
        ("find_pattern", {"query": "x", "path": "\udcff"}, "The path filter contains invalid text"),
        ("find_pattern", {"query": "x", "author": "\udcff"}, "The author filter contains invalid text"),
        ("explain_change", {}, "The call names no file and no symbol"),
        ("explain_change", {"symbol": "conect"}, "Did you mean connect?"),
        ("explain_change", {"file": ""}, "The call names no file and no symbol"),
        ("explain_change", {"file": "\ud800"}, "This is not a file name"),
        ("explain_change", {"file": "x" * 2_000_000}, "The file's name is longer than 10,000 characters"),
        ("explain_change", {"file": "src/tcp.py", "line_start": 0}, "Lines count from 1"),
        ("explain_change", {"file": "src/tcp.py", "line_start": 2, "line_end": 1}, "before it starts"),
        ("explain_change", {"file": "src/tcp.py", "lines": [1]}, "`lines`: there is no such argument"),
        ("explain_change", {"file": ["src/tcp.py"]}, "`file`: Input should be a valid string"),
        ("show_commit", {"commit": [["HEAD"]]}, "`commit.0`: Input should be a valid string, not ['HEAD']"),
        ("find_pattern", {"query": "x", "repositories": ["a", 1]}, "`repositories.1`: Input should be a"),
    ],
)
def test_invalid_arguments_are_explained(
    server: MCPServer[Any], tool: str, arguments: dict[str, Any], message: str
) -> None:
    """Invalid arguments get an error that a model can act on."""
    result = call_tool(server, tool, **arguments)
    assert result.is_error
    assert message in extract_text(result)
    assert "pydantic" not in extract_text(result) and "Error executing" not in extract_text(result)


@pytest.mark.parametrize(
    "since",
    ["30d", "12h", "2w", "6m", "1y", "2019-12-31", "2019-12-31T10:00:00Z", "2019-12-31T10:00:00+02:00", None],
)
def test_all_formats_of_since(server: MCPServer[Any], since: str | None) -> None:
    """`since` accepts ages, dates, RFC 3339 times and null."""
    find_answer = extract_structured_content(call_tool(server, "find_pattern", query="timeout", since=since))
    is_recent = since is not None and not since.startswith("2019")
    assert len(find_answer["hits"]) == (0 if is_recent else 2)


@pytest.mark.parametrize(("k", "hits"), [(-3, 1), (0, 1), (1, 1), (2, 2), (99, 2)])
def test_k_is_clamped(server: MCPServer[Any], k: int, hits: int) -> None:
    """`k` is limited to its range, and a hint says so if the limit matters."""
    for tool, arguments in (
        ("find_pattern", {"query": "timeout"}),
        ("explain_change", {"file": "src/tcp.py"}),
    ):
        answer = extract_structured_content(call_tool(server, tool, **arguments, k=k))
        note = f"`k` is from 1 to 20: {k} counts as 1."
        assert ((answer["_meta"]["hint"] or "").endswith(note)) == (k < 1)
        assert tool == "explain_change" or len(answer["hits"]) == hits


def test_large_k_is_clamped(repo: Repo, home: Path) -> None:
    """If `k` is above the maximum and that many commits are returned, a hint says so."""
    for number in range(1, 22):
        repo.commit_file("a.py", "".join(f"{line}\n" for line in range(number)), f"Add line {number}")
    server = create_server(repo, home)
    for k, note in ((20, None), (30, "`k` is from 1 to 20: 30 counts as 20.")):
        answer = extract_structured_content(call_tool(server, "explain_change", file="a.py", k=k))
        assert len(answer["hits"]) == 20
        assert (note is None) == ("`k`" not in answer["_meta"]["hint"])
        assert answer["_meta"]["hint"].endswith(note or "")


def test_filters_restrict_hits(server: MCPServer[Any]) -> None:
    """`path`, `author`, `language` and `range` restrict the hits."""
    for arguments, file in (
        ({"path": "docs/"}, "docs/ü.md"),
        ({"language": "python"}, "src/tcp.py"),
        ({"range": "HEAD~1"}, "src/tcp.py"),
    ):
        hits = extract_structured_content(call_tool(server, "find_pattern", query="timeout", **arguments))[
            "hits"
        ]
        assert [hit["file_path"] for hit in hits] == [file]
    assert (
        extract_structured_content(call_tool(server, "find_pattern", query="timeout", author="nobody"))[
            "hits"
        ]
        == []
    )


@pytest.mark.parametrize("tool", [("find_pattern", {"query": "x"}), ("explain_change", {"file": "a"})])
def test_error_outside_a_repository(tmp_path: Path, home: Path, tool: tuple[str, dict[str, Any]]) -> None:
    """Outside a repository both tools return an error."""
    result = call_tool(create_lineage_server(InProcessBackend(home), home, tmp_path), tool[0], **tool[1])
    assert result.is_error
    assert "is not in a git repository" in extract_text(result)
