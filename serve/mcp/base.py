"""Base of both MCP servers: strict tools, error mapping, stdio transport and shutdown.

It corrects behaviour of the `mcp` library, which ignores unknown arguments, reports wrong arguments with Pydantic's
messages, hides other errors from the model, and does not answer lines that are no valid messages (invalid JSON, or JSON
that is nested too deeply).
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, NoReturn, TypeVar, cast

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
from pydantic.json_schema import SkipJsonSchema

from pipeline import cancellation
from serve import logs, process
from serve.errors import NeedsRebuild
from serve.text import escape_controls
from stores import errors

_ID_PATTERN: Final = r'"id"\s*:\s*(?:(?P<number>\d{1,15})|"(?P<text>[^"\\]{1,100})")'
_VERSION_PATTERN: Final = r'"jsonrpc"\s*:\s*"2\.0"'
# Clients write the id of a message at its start or its end. Patterns find it in a message whose JSON is not valid.
_ID_PATTERNS: Final = (
    re.compile(rf"\s*\{{\s*{_VERSION_PATTERN}\s*,\s*{_ID_PATTERN}\s*,"),
    re.compile(rf"\s*\{{\s*{_ID_PATTERN}\s*,"),
    re.compile(rf".*[,{{]\s*{_VERSION_PATTERN}\s*,\s*{_ID_PATTERN}\s*\}}\s*", re.DOTALL),
)
# Characters at the start and the end of a line that are searched for the id.
_SEARCHED_CHARS: Final = 300

# Wrong arguments that an error message describes. More would only cost the model tokens.
MAX_PROBLEMS: Final = 5

ResultType = TypeVar("ResultType")
# An optional argument may be null. The schema omits that, as it would cost as many tokens as the description.
Unset = SkipJsonSchema[None]


def create_read_only_annotations() -> ToolAnnotations:
    """Return the annotations of a tool that changes nothing and accesses only this machine.

    Here and below, values equal to the defaults of the protocol are left out.
    """
    return ToolAnnotations(read_only_hint=True, open_world_hint=False)


def create_write_annotations(*, is_destructive: bool = False, is_idempotent: bool = False) -> ToolAnnotations:
    """Return the annotations of a tool that changes data on this machine."""
    return ToolAnnotations(
        destructive_hint=None if is_destructive else False,
        idempotent_hint=is_idempotent or None,
        open_world_hint=False,
    )


def create_tool(
    function: Callable[..., Any],
    *,
    title: str,
    annotations: ToolAnnotations,
    description: str | None = None,
    returns_text: bool = False,
) -> Tool:
    """Return a tool that runs `function` and rejects unknown arguments. An ordinary function runs in a thread.

    The description defaults to the function's docstring. The model gets the text of a LineageError or OSError as the
    tool's result; NeedsRebuild becomes the protocol's error for invalid parameters. `returns_text`: see `_StrictTool`.
    """
    wrapped = _wrap_function(function)
    # The library types its result as `Tool`, although it is of the class that the method is called on.
    tool = cast(
        "_StrictTool",
        _StrictTool.from_function(wrapped, title=title, description=description, annotations=annotations),
    )
    tool.returns_text = returns_text
    tool.fn_metadata.arg_model.model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    tool.fn_metadata.arg_model.model_rebuild(force=True)
    schema = tool.fn_metadata.arg_model.model_json_schema(by_alias=True)
    tool.parameters = _strip_input_schema(schema, schema.get("$defs", {}))
    tool.fn_metadata.output_schema = _simplify_output_schema(tool.fn_metadata.output_schema)
    return tool


def create_server(
    name: str,
    *,
    title: str,
    version: str,
    instructions: str,
    tools: Sequence[Tool],
    has_tools_only: bool = False,
) -> MCPServer[Any]:
    """Return a server with these tools. `has_tools_only`: do not advertise prompts and resources, as it has none."""
    server = _StdioServer(
        name,
        title=title,
        version=version,
        instructions=instructions,
        tools=list(tools),
        log_level="WARNING",
    )
    if has_tools_only:
        server.remove_handlers("prompts/", "resources/")
    return server


def serve_stdio(
    server: MCPServer[Any], log_level: str, *, on_exit: Callable[[], None] = lambda: None
) -> NoReturn:
    """Serve one client on stdin and stdout until it disconnects or sends a signal, then exit the process.

    `on_exit` runs before the exit. The exit does not wait for threads, because nobody reads their answers any more.
    Some clients send a signal to a server that exits slowly; others send only a signal.
    """
    logs.configure(log_level)

    def exit_process(code: int) -> NoReturn:
        on_exit()
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)

    process.exit_on_termination_signals(exit_process)
    code = 0
    try:
        anyio.run(server.run_stdio_async)
    except BrokenPipeError:
        pass
    except BaseExceptionGroup as failures:
        code = _report_failures(failures)
    exit_process(code)


async def serve_lines(server: MCPServer[Any], lines: Any = None) -> None:
    """Serve one client until its input ends. `lines`: asynchronous text file; by default stdin and stdout."""
    lowlevel_server = server._lowlevel_server  # noqa: SLF001 - the public methods only serve stdio and HTTP
    async with stdio_server(lines, lines) as (incoming, outgoing):
        stream = MessageStream(incoming, outgoing)
        await lowlevel_server.run(stream, outgoing, lowlevel_server.create_initialization_options())


class MessageStream:
    """Stream of a client's messages. Invalid lines are answered with an error and skipped."""

    def __init__(self, incoming: Any, outgoing: Any) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    @property
    def last_context(self) -> Any:
        """Context of the last message, which the library reads."""
        return self._incoming.last_context

    async def receive(self) -> Any:
        """Return the next valid message."""
        while isinstance(message := await self._incoming.receive(), Exception):
            await self._outgoing.send(SessionMessage(_build_parse_error(message)))
        return message

    async def aclose(self) -> None:
        """Close the stream."""
        await self._incoming.aclose()

    def __aiter__(self) -> MessageStream:
        return self

    async def __anext__(self) -> Any:
        while isinstance(message := await self._incoming.__anext__(), Exception):
            await self._outgoing.send(SessionMessage(_build_parse_error(message)))
        return message

    async def __aenter__(self) -> MessageStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _build_parse_error(error: Exception) -> JSONRPCError:
    message_id, reason = None, str(error)
    if isinstance(error, ValidationError):
        problem = error.errors(include_url=False)[0]
        reason = problem["msg"]
        message_id = _find_message_id(problem["input"])
    message = (
        f"The server cannot parse the message: {reason[:200]}. Correct its JSON, or nest it less deeply."
    )
    data = ErrorData(code=PARSE_ERROR, message=message)
    return JSONRPCError(jsonrpc="2.0", id=message_id, error=data)


def _find_message_id(content: Any) -> int | str | None:
    """Return the id of an invalid message, or None. `content`: its object, or its line if that is no valid JSON."""
    if isinstance(content, dict):
        return content["id"] if isinstance(content.get("id"), (int, str)) else None
    if not isinstance(content, str):
        return None
    start, end = content[:_SEARCHED_CHARS], content[-_SEARCHED_CHARS:]
    for pattern, text in zip(_ID_PATTERNS, (start, start, end), strict=True):
        if match := pattern.match(text):
            return int(match["number"]) if match["number"] else match["text"]
    return None


def _report_failures(failures: BaseExceptionGroup[BaseException]) -> int:
    """Print the failures of the server to stderr and return the exit code. A disconnected client is no failure."""
    _, server_failures = failures.split(BrokenPipeError)
    if server_failures is None:
        return 0
    # An OSError comes from stdin or stdout, as tools send theirs to the client.
    _, unexpected_failures = server_failures.split(OSError)
    with suppress(OSError):
        if unexpected_failures is None:
            error = process.build_output_write_error(_find_first_os_error(server_failures))
            print(f"error: {error}", file=sys.stderr)  # noqa: T201 - clients show stderr
        else:
            sys.excepthook(type(failures), failures, failures.__traceback__)
    return 1


def _find_first_os_error(failures: BaseException) -> OSError:
    while isinstance(failures, BaseExceptionGroup):
        failures = failures.exceptions[0]
    return failures if isinstance(failures, OSError) else OSError(str(failures))


class _StdioServer(MCPServer[Any]):
    """MCP server on stdio that answers every line, including invalid ones."""

    def remove_handlers(self, *prefixes: str) -> None:
        """Remove the handlers of the methods with these prefixes, so that their capabilities are not advertised."""
        handlers = self._lowlevel_server._request_handlers  # noqa: SLF001 - the library has no public way
        for method in [method for method in handlers if method.startswith(prefixes)]:
            del handlers[method]

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[Any, Any] | None = None
    ) -> GetPromptResult | InputRequiredResult:
        """Get a prompt as the base class does, but report wrong arguments as invalid and not as a server error."""
        try:
            return await super().get_prompt(name, arguments, context)
        except ValueError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error

    async def run_stdio_async(self) -> None:
        await serve_lines(self)


class _StrictTool(Tool):
    """Tool that describes wrong arguments in plain language, and reports its errors without the library's prefix.

    `returns_text`: the function returns a `CallToolResult` with text; else the text is the structured content as JSON.
    """

    returns_text: bool = False

    async def run(
        self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False
    ) -> Any:
        try:
            self.fn_metadata.validate_arguments(arguments)
        except ValidationError as error:
            raise ToolError(_format_argument_error(self, arguments, error)) from error
        try:
            answer = await super().run(arguments, context, convert_result)
        except ToolError as error:
            if type(error.__cause__) is not ToolError:
                raise
            # Remove the library's prefix, which costs the model tokens and adds no information.
            raise ToolError(str(error.__cause__)) from error
        if not isinstance(answer, CallToolResult):
            return answer
        structured = _escape_strings(answer.structured_content)
        content = answer.content if self.returns_text else [_build_json_content(structured)]
        return answer.model_copy(update={"content": content, "structured_content": structured})


def _build_json_content(structured: Any) -> TextContent:
    """Return structured content as compact JSON, for clients that show only text.

    The library's own text is indented JSON, which costs the model more tokens.
    """
    return TextContent(type="text", text=json.dumps(structured, ensure_ascii=False, separators=(",", ":")))


def _escape_strings(value: Any) -> Any:
    if isinstance(value, str):
        return escape_controls(value)
    if isinstance(value, dict):
        return {name: _escape_strings(part) for name, part in value.items()}
    return [_escape_strings(part) for part in value] if isinstance(value, (list, tuple)) else value


def _format_argument_error(tool: Tool, arguments: dict[str, Any], error: ValidationError) -> str:
    # Pydantic reports "none_required" for every wrong optional argument, besides the problem that matters.
    problems = [problem for problem in error.errors() if problem["type"] != "none_required"]
    messages = [
        f"{_format_argument_path(problem, arguments)}: {_describe_problem(problem)}"
        for problem in problems[:MAX_PROBLEMS]
    ]
    if len(problems) > MAX_PROBLEMS:
        messages.append(f"Problems not shown: {len(problems) - MAX_PROBLEMS:,}.")
    names = ", ".join(f"`{name}`" for name in tool.parameters.get("properties", {}))
    return f"Invalid arguments for {tool.name}. {' '.join(messages)} Its arguments are {names}."


def _format_argument_path(problem: Any, arguments: Any) -> str:
    """Return the path of the wrong argument, such as `nodes.0.label`, without the type names that Pydantic inserts."""
    names, value = [], arguments
    for key in problem["loc"]:
        is_present = (
            key in value if isinstance(value, dict) else isinstance(value, list) and key in range(len(value))
        )
        if is_present:
            names.append(key)
            value = value[key]
    if problem["type"] == "missing":
        names.append(problem["loc"][-1])
    return f"`{'.'.join(map(str, names))}`"


def _describe_problem(problem: Any) -> str:
    if problem["type"] == "extra_forbidden":
        return "there is no such argument."
    if problem["type"] == "missing":
        return "is required."
    if problem["type"] == "model_type":
        return f"should be an object, not {problem['input']!r:.60}."
    return f"{problem['msg']}, not {problem['input']!r:.60}."


def _strip_input_schema(schema: Any, definitions: dict[str, Any]) -> Any:
    """Return the schema without parts that cost the model tokens and add no information, and with each `$ref` resolved.

    Left out are titles, empty defaults, descriptions of types, and `additionalProperties`, because an error names
    unknown arguments.
    """
    if isinstance(schema, dict):
        if reference := schema.get("$ref"):
            definition = {**definitions[reference.rpartition("/")[2]], "description": None}
            schema = {**definition, **schema}
        return {
            name: _strip_input_schema(part, definitions)
            for name, part in schema.items()
            if not _is_redundant(name, part)
        }
    return [_strip_input_schema(part, definitions) for part in schema] if isinstance(schema, list) else schema


def _is_redundant(name: str, part: Any) -> bool:
    return (
        part is None
        or name in {"$defs", "$ref"}
        or (name == "title" and isinstance(part, str))
        or (name == "default" and (part is False or part in ("", [])))
        or (name == "additionalProperties" and isinstance(part, bool))
    )


def _simplify_output_schema(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a schema with the names of the answer's fields; the documentation describes them.

    Some clients send it to the model with every request, where a complete one costs more than the answers.
    """
    return schema and {"type": "object", "properties": {name: {} for name in schema["properties"]}}


def _wrap_function(function: Callable[..., ResultType]) -> Callable[..., Awaitable[ResultType]]:
    @functools.wraps(function)
    async def run(**arguments: Any) -> ResultType:
        cancelled = threading.Event()

        def call_function() -> ResultType:
            with cancellation.use_flag(cancelled):
                return function(**arguments)

        try:
            if inspect.iscoroutinefunction(function):
                answer: ResultType = await function(**arguments)
                return answer
            return await anyio.to_thread.run_sync(call_function, abandon_on_cancel=True)
        except NeedsRebuild as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        except OSError as error:
            raise ToolError(str(errors.to_lineage_error(error) or error)) from error
        except Exception as error:
            if lineage_error := errors.to_lineage_error(error):
                raise ToolError(str(lineage_error)) from error
            raise
        finally:
            cancelled.set()  # an abandoned thread ends at its next stage

    return run
