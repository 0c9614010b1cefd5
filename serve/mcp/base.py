"""Lines from a client that are no messages: answered, where the library would leave the client to wait.

What is nested deeper than its reader goes is such a line. Its id is taken where clients put it, in front or at the end.

What both MCP servers share: strict arguments, errors that a model can act on, an end when the client leaves.

The library ignores arguments that a tool does not have, reports wrong ones with the words of its validator, and
tells a model nothing of any error but its own kinds.
"""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, NoReturn, TypeVar

import anyio
import anyio.to_thread
from mcp.server import MCPServer
from mcp.server.mcpserver.context import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_PARAMS,
    PARSE_ERROR,
    CallToolResult,
    ErrorData,
    GetPromptResult,
    InputRequiredResult,
    JSONRPCError,
    TextContent,
    ToolAnnotations,
)
from pydantic import ConfigDict, ValidationError

from pipeline.signals import ENDING
from serve import logs, process
from serve.errors import NeedsRebuild
from stores import errors
from stores.errors import LineageError

_ID: Final = r'"id"\s*:\s*(?:(?P<number>\d{1,15})|"(?P<text>[^"\\]{1,100})")'
_VERSION: Final = r'"jsonrpc"\s*:\s*"2\.0"'
_PLACES: Final = (
    re.compile(rf"\s*\{{\s*{_VERSION}\s*,\s*{_ID}\s*,"),
    re.compile(rf"\s*\{{\s*{_ID}\s*,"),
    re.compile(rf".*,\s*{_VERSION}\s*,\s*{_ID}\s*\}}\s*", re.DOTALL),
)
# The last of a line is enough to find an id at its end.
_TAIL: Final = 300


class Messages:
    """The messages of a client; lines that are none are answered by an error and passed over."""

    def __init__(self, lines: Any, answers: Any) -> None:
        self._lines = lines
        self._answers = answers

    @property
    def last_context(self) -> Any:
        """Of the message that came last; the library asks for it."""
        return self._lines.last_context

    async def receive(self) -> Any:
        """The next message."""
        while isinstance(message := await self._lines.receive(), Exception):
            await self._answers.send(SessionMessage(_parse_error(message)))
        return message

    async def aclose(self) -> None:
        """No more of them are wanted."""
        await self._lines.aclose()

    def __aiter__(self) -> Messages:
        return self

    async def __anext__(self) -> Any:
        while isinstance(message := await self._lines.__anext__(), Exception):
            await self._answers.send(SessionMessage(_parse_error(message)))
        return message

    async def __aenter__(self) -> Messages:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _parse_error(error: Exception) -> JSONRPCError:
    line, reason = "", str(error)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        reason = first["msg"]
        line = first["input"] if isinstance(first["input"], str) else ""
    message = f"This is no message that can be read: {reason[:200]}. Nest it less deeply, or mend its JSON."
    return JSONRPCError(jsonrpc="2.0", id=_id(line), error=ErrorData(code=PARSE_ERROR, message=message))


def _id(line: str) -> int | str | None:
    ends = (line[:_TAIL], line[:_TAIL], line[-_TAIL:])
    for place, part in zip(_PLACES, ends, strict=True):
        if found := place.match(part):
            return int(found["number"]) if found["number"] else found["text"]
    return None


# A model pays for each word, and mends the others like the first ones.
MOST_PROBLEMS: Final = 5

Returned = TypeVar("Returned")


def reading() -> ToolAnnotations:
    """The annotations of a tool that changes nothing and knows of nothing outside this machine."""
    return ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )


def writing(*, destroys: bool = False, repeatable: bool = False) -> ToolAnnotations:
    """The annotations of a tool that changes something here; `repeatable` where a second time does nothing more."""
    return ToolAnnotations(
        read_only_hint=False, destructive_hint=destroys, idempotent_hint=repeatable, open_world_hint=False
    )


def tool(
    function: Callable[..., Any], *, title: str, annotations: ToolAnnotations, description: str | None = None
) -> Tool:
    """A tool that runs `function` in a thread of its own; its docstring tells the model what it is for.

    Arguments are the function's, and no others. A LineageError it raises reaches the model as text; NeedsRebuild is
    the protocol's error for invalid parameters.
    """
    made = _Strict.from_function(
        _threaded(function), title=title, description=description, annotations=annotations
    )
    made.fn_metadata.arg_model.model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    made.fn_metadata.arg_model.model_rebuild(force=True)
    made.parameters = _bare(made.fn_metadata.arg_model.model_json_schema(by_alias=True))
    made.fn_metadata.output_schema = _bare(made.fn_metadata.output_schema)
    return made


def server(
    name: str, *, title: str, version: str, instructions: str, tools: Sequence[Tool], **more: Any
) -> MCPServer[Any]:
    """A server with these tools; `more` as `MCPServer` takes it."""
    return _Answering(
        name,
        title=title,
        version=version,
        instructions=instructions,
        tools=list(tools),
        log_level="WARNING",
        **more,
    )


def serve(served: MCPServer[Any], log: str, *, at_end: Callable[[], None] = lambda: None) -> None:
    """Serve one client on stdin and stdout until it leaves; `log` as in `settings.LOG_LEVELS`.

    Does not return: threads that still wait for an answer nobody will read must not keep the process. `at_end` is
    done before, on a signal too: clients send one to servers that are slow to leave, and some send nothing else.
    """
    logs.configure(log)

    def leave(code: int) -> NoReturn:
        at_end()
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)

    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            # Here, and not by an exception: the thread that reads stdin would be waited for, and it waits for a line.
            signal.signal(number, lambda number, _: leave(process.code(number)))
    code = 0
    try:
        anyio.run(served.run_stdio_async)
    except BrokenPipeError:
        pass
    except BaseExceptionGroup as failures:
        code = _told(failures)
    leave(code)


def _told(failures: BaseExceptionGroup[BaseException]) -> int:
    """The exit code of a server that failed, once it has said why; a client that left is no failure."""
    _, rest = failures.split(BrokenPipeError)
    if rest is None:
        return 0
    _, others = rest.split(OSError)  # the client's own stream: what tools meet, the client is told
    with suppress(OSError):
        if others is None:
            print(f"error: {process.lost(_first(rest))}", file=sys.stderr)  # noqa: T201 - where clients look for it
        else:
            sys.excepthook(type(failures), failures, failures.__traceback__)
    return 1


def _first(failures: BaseException) -> OSError:
    while isinstance(failures, BaseExceptionGroup):
        failures = failures.exceptions[0]
    return failures if isinstance(failures, OSError) else OSError(str(failures))


class _Answering(MCPServer[Any]):
    """A server that answers every line, those that are no messages too."""

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[Any, Any] | None = None
    ) -> GetPromptResult | InputRequiredResult:
        """As its base does; who asks wrongly is told so, and not that the server failed."""
        try:
            return await super().get_prompt(name, arguments, context)
        except ValueError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error

    async def run_stdio_async(self) -> None:
        served = self._lowlevel_server
        async with stdio_server() as (lines, answers):
            await served.run(Messages(lines, answers), answers, served.create_initialization_options())


class _Strict(Tool):
    """A tool that refuses what it does not know, in a sentence, and whose errors are told in their own words."""

    async def run(
        self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False
    ) -> Any:
        try:
            self.fn_metadata.validate_arguments(arguments)
        except ValidationError as error:
            raise ToolError(_argument_error(self, arguments, error)) from error
        try:
            answer = await super().run(arguments, context, convert_result)
        except ToolError as error:
            if type(error.__cause__) is not ToolError:
                raise
            # The library put its own words before it: a model pays for them, and learns nothing.
            raise ToolError(str(error.__cause__)) from error
        return _with_text(answer) if isinstance(answer, CallToolResult) else answer


def _with_text(answer: CallToolResult) -> CallToolResult:
    """The answer with its structured content as text too, for clients that show nothing else.

    The library lays a form out over many lines, which a model pays for.
    """
    text = json.dumps(answer.structured_content, ensure_ascii=False, separators=(",", ":"))
    return answer.model_copy(update={"content": [TextContent(type="text", text=text)]})


def _argument_error(asked: Tool, arguments: dict[str, Any], error: ValidationError) -> str:
    # That null would do too is true of whatever may be left out, and helps nobody.
    problems = [problem for problem in error.errors() if problem["type"] != "none_required"]
    said = [f"{_named(problem, arguments)}: {_problem(problem)}" for problem in problems[:MOST_PROBLEMS]]
    if len(problems) > MOST_PROBLEMS:
        said.append(f"So it is with {len(problems) - MOST_PROBLEMS:,} others.")
    known = ", ".join(f"`{name}`" for name in asked.parameters.get("properties", {}))
    return f"{asked.name} cannot be asked so. {' '.join(said)} Its arguments are {known}."


def _named(problem: Any, arguments: Any) -> str:
    """Where in the arguments it is: the validator names its own types on the way, which the caller never wrote."""
    names, value = [], arguments
    for step in problem["loc"]:
        is_there = (
            step in value
            if isinstance(value, dict)
            else isinstance(value, list) and step in range(len(value))
        )
        if is_there:
            names.append(step)
            value = value[step]
    if problem["type"] == "missing":
        names.append(problem["loc"][-1])
    return f"`{'.'.join(map(str, names))}`"


def _problem(problem: Any) -> str:
    if problem["type"] == "extra_forbidden":
        return "there is no such argument."
    if problem["type"] == "missing":
        return "is required."
    if problem["type"] == "model_type":
        return f"should be an object, not {problem['input']!r:.60}."
    return f"{problem['msg']}, not {problem['input']!r:.60}."


def _bare(schema: Any) -> Any:
    """A schema without titles that only repeat its names and defaults that say nothing: a model pays for each word."""
    if isinstance(schema, dict):
        return {name: _bare(part) for name, part in schema.items() if not _is_idle(name, part)}
    return [_bare(part) for part in schema] if isinstance(schema, list) else schema


def _is_idle(name: str, part: Any) -> bool:
    return (name == "title" and isinstance(part, str)) or (name == "default" and part in (None, "", []))


def _threaded(function: Callable[..., Returned]) -> Callable[..., Awaitable[Returned]]:
    @functools.wraps(function)
    async def answer(**arguments: Any) -> Returned:
        try:
            return await anyio.to_thread.run_sync(
                functools.partial(function, **arguments), abandon_on_cancel=True
            )
        except NeedsRebuild as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        except LineageError as error:
            raise ToolError(str(error)) from error
        except OSError as error:
            raise ToolError(str(errors.of(error) or error)) from error

    return answer
