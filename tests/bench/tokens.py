"""Benchmark of tokens: the tool definitions and instructions of both MCP servers, and the answers of lineage.

python -m tests.bench.tokens CLONE...

Tokens are counted with the vocabulary `o200k_base` of the package bpe-openai, which this benchmark alone needs:
`pip install bpe-openai`. An answer counts as the text that the model reads, and as structured content.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
from mcp.client import Client
from mcp_types import TextContent

from serve.backend import InProcessBackend
from serve.mcp.lineage_server import create_lineage_server
from serve.mcp.mindmap_server import create_mindmap_server
from tests.bench.everyday import QUERY
from tests.bench.histories import clone_history
from tests.bench.programs import run_git, run_lineage
from tests.bench.report import BenchmarkOptions, Row, main

# Upper bounds of the definitions of all tools of both servers, with and without output schemas.
MAX_DEFINITION_TOKENS: Final = 2_600
MAX_INPUT_DEFINITION_TOKENS: Final = 1_800
# Upper bound of the instructions of both servers, which say once what definitions would repeat.
MAX_INSTRUCTION_TOKENS: Final = 300
MAX_FIND_TOKENS: Final = 1_300
MAX_EXPLAIN_TOKENS: Final = 600
EXPLAINED_LINES: Final = 10

VOCABULARY: Final = "o200k_base"
# Parts of a definition that every client sends to the model.
_INPUT_PARTS: Final = ("name", "description", "inputSchema")


def measure(clone: Path, folder: Path, options: BenchmarkOptions) -> Sequence[Row]:
    history = clone_history(clone, folder / "clone", options.commits)
    home = folder / "home"
    run_lineage(home, "index", history.path, "--no-progress", "--encoder", "static")
    count = _create_counter()
    lineage = create_lineage_server(InProcessBackend(home), home, history.path)
    mindmap = create_mindmap_server(folder / "maps")
    definitions = [*anyio.run(_list_tools, lineage), *anyio.run(_list_tools, mindmap.server)]
    mindmap.close()
    inputs = [{name: tool[name] for name in _INPUT_PARTS} for tool in definitions]
    file = _find_source_file(history.path)
    find_text, find_content = anyio.run(_call, lineage, "find_pattern", {"query": QUERY})
    lines = {"file": file, "line_start": 1, "line_end": EXPLAINED_LINES}
    explain_text, explain_content = anyio.run(_call, lineage, "explain_change", lines)
    return [
        Row(
            history.name,
            "definitions of all tools, tokens",
            sum(count(_to_json(tool)) for tool in definitions),
            MAX_DEFINITION_TOKENS,
            f"{len(definitions)} tools of both servers",
        ),
        Row(
            history.name,
            "definitions without output schemas, tokens",
            sum(count(_to_json(tool)) for tool in inputs),
            MAX_INPUT_DEFINITION_TOKENS,
            "names, descriptions, arguments",
        ),
        Row(
            history.name,
            "instructions of both servers, tokens",
            sum(count(server.instructions or "") for server in (lineage, mindmap.server)),
            MAX_INSTRUCTION_TOKENS,
            "most clients send them once a session",
        ),
        Row(
            history.name,
            "find_pattern with five hits, tokens",
            count(find_text),
            MAX_FIND_TOKENS,
            f"structured content {count(find_content)}",
        ),
        Row(
            history.name,
            f"explain_change of {EXPLAINED_LINES} lines, tokens",
            count(explain_text),
            MAX_EXPLAIN_TOKENS,
            f"structured content {count(explain_content)}; {file}",
        ),
    ]


def _create_counter() -> Callable[[str], int]:
    """Return a function that counts the tokens of a text."""
    try:
        import bpe_openai  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise SystemExit("This benchmark needs `pip install bpe-openai`.") from error
    encoding = bpe_openai.get_encoding(VOCABULARY)
    return lambda text: len(encoding.encode_ordinary(text))


async def _list_tools(server: Any) -> list[dict[str, Any]]:
    async with Client(server) as client:
        tools = (await client.list_tools()).tools
    return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]


async def _call(server: Any, tool: str, arguments: dict[str, Any]) -> tuple[str, str]:
    """Return the text and the structured content of an answer."""
    async with Client(server) as client:
        result = await client.call_tool(tool, arguments)
    texts = [part.text for part in result.content if isinstance(part, TextContent)]
    return "\n".join(texts), _to_json(result.structured_content)


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _find_source_file(path: Path) -> str:
    """Return the largest tracked source file. Several commits usually have changed its first lines."""
    names = run_git(path, "ls-files", "*.py", "*.rs", "*.js", "*.java", "*.kt").split("\n")
    return max(names, key=lambda name: (path / name).stat().st_size)


if __name__ == "__main__":
    main(measure, __doc__ or "")
