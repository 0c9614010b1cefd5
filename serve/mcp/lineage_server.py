"""The `lineage-mcp` command: both questions as MCP tools over stdio, about the working directory's repository."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Annotated, Any, Final

from mcp.server import MCPServer
from mcp_types import CallToolResult
from pydantic import BaseModel, Field

from serve import config, process
from serve.api_types import (
    ExplainAnswer,
    ExplainHit,
    ExplainMeta,
    ExplainRequest,
    FindAnswer,
    FindMeta,
    FindRequest,
    PatternHit,
    document,
)
from serve.backend import Answering, answering
from serve.mcp import base

INSTRUCTIONS: Final = """\
The history of the git repository in the working directory, from a local index.
Before you write code in a style or with an interface you have not seen here, ask `find_pattern` how this project \
did it before. Before you change code whose reason is not clear, ask `explain_change` why it looks the way it does.
An answer's `_meta.hint` says what limits it; when it names a command, tell the person or run it."""

FIND: Final = """\
Find past commits whose changes resemble a description: how was something done in this project before?

Use it before writing code, to follow this project's own precedent: a similar feature, fix, migration, test or \
configuration change. Ask in plain words, as a commit message would put it; names in backquotes are meant literally.
Do not use it to find where something is in the present code (search the files), nor to learn who wrote certain \
lines (explain_change).
Hits are commits, best first, each shown by its most fitting file; they resemble the question and are no proof. \
`matched` says which of your words a hit has where; `weak` that it is more likely no precedent."""

EXPLAIN: Final = """\
Say which commits made lines of a file, newest first: why does this code look the way it does?

Use it before changing or deleting code whose reason is not clear, and to learn when and why a line came to be. It \
is git's blame of the file as it is on disk, so it is exact; lines not yet committed are named in \
`_meta.explain.limitation`.
Ask for the few lines you care about: a whole file brings the commits that last touched anything in it.
Do not use it to find examples of how something is done (find_pattern)."""


class FindPatternResult(BaseModel):
    """Commits that resemble the question, best first."""

    hits: tuple[PatternHit, ...]
    meta: FindMeta = Field(alias="_meta")


class ExplainChangeResult(BaseModel):
    """Commits that made the lines, newest first; `_meta.explain.related_commits` are context, no proof."""

    hits: tuple[ExplainHit, ...]
    meta: ExplainMeta = Field(alias="_meta")


def lineage_server(asked: Answering, repository: Path) -> MCPServer[Any]:
    """The server; `asked` answers about the repository at this path."""

    def find_pattern(
        query: Annotated[str, Field(description="What you are looking for, in plain words.")],
        k: Annotated[int, Field(description="Number of commits; taken into 1 to 20.")] = 5,
        language: Annotated[
            str | None,
            Field(description="Only changes to files of this language, such as `python` or `rust`."),
        ] = None,
        since: Annotated[
            str | None,
            Field(
                description="Only commits since: `30d` (h, d, w, m, y), `2024`, `2024-01`, `2024-01-31`, "
                "or an RFC 3339 time."
            ),
        ] = None,
        path: Annotated[
            str | None, Field(description="Only files this gitignore pattern names: `src/`, `*.py`, `/docs`.")
        ] = None,
        author: Annotated[
            str | None, Field(description="Only commits by this author: part of the name or address.")
        ] = None,
        no_rerank: Annotated[
            bool,
            Field(description="Keep the order of rank fusion; less precise, without `matched` and `weak`."),
        ] = False,
    ) -> Annotated[CallToolResult, FindPatternResult]:
        request = FindRequest(query, k, language, since, path, author, rerank=not no_rerank)
        return _result(asked.find(request, repository))

    def explain_change(
        file: Annotated[str, Field(description="The file, relative to the repository's root.")],
        line_start: Annotated[int, Field(description="First line, from 1.")] = 1,
        line_end: Annotated[int, Field(description="Last line, included; 0: to the end of the file.")] = 0,
        k: Annotated[int, Field(description="Number of commits; taken into 1 to 20.")] = 5,
        include_diff: Annotated[
            bool, Field(description="With what each commit changed in these lines.")
        ] = True,
        include_related: Annotated[
            bool, Field(description="With up to two commits before and after each in the file's history.")
        ] = False,
    ) -> Annotated[CallToolResult, ExplainChangeResult]:
        request = ExplainRequest(file, line_start, line_end, k, include_diff, include_related)
        return _result(asked.explain(request, repository))

    tools = [
        base.tool(
            find_pattern,
            title="How was it done before?",
            annotations=base.reading(),
            description=FIND,
        ),
        base.tool(
            explain_change,
            title="Why does this code look the way it does?",
            annotations=base.reading(),
            description=EXPLAIN,
        ),
    ]
    return base.server(
        "lineage", title="lineage", version=config.version(), instructions=INSTRUCTIONS, tools=tools
    )


def main() -> None:
    """Serve the client that started this program."""
    process.ready()
    parser = argparse.ArgumentParser(
        "lineage-mcp",
        description="Serve the history of the working directory's repository to an MCP client, over stdin and stdout. "
        "`lineage register` says how a client is told of it.",
    )
    parser.add_argument("--version", action="version", version=f"lineage-mcp {config.version()}")
    with process.answering():
        parser.parse_args()
    said = config.read()
    config.calm_libraries()
    asked = answering(said)
    try:
        here = Path.cwd()
    except FileNotFoundError:
        parser.error("the working directory has been deleted; start the client in a repository.")
    base.serve(lineage_server(asked, here), said.log)


def _result(answer: FindAnswer | ExplainAnswer) -> CallToolResult:
    said = document(answer)
    published = {"hits": said["hits"], "_meta": said["meta"]}
    return CallToolResult(content=[], structured_content=published)


if __name__ == "__main__":
    main()
