"""Transport of both MCP servers: stdio or a connection of the daemon, invalid lines, and shutdown.

The `mcp` library does not answer lines that are no valid messages (invalid JSON, JSON that is nested too deeply, or a
request with an invalid id). `MessageStream` answers them with an error.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, NoReturn, get_args

import anyio
from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver.context import Context
from mcp.server.mcpserver.tools import Tool
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    ClientRequest,
    ErrorData,
    GetPromptResult,
    InputRequiredResult,
    JSONRPCError,
    JSONRPCNotification,
)
from pydantic import ValidationError

from pipeline.git import git_cli
from serve import process

_ID_PATTERN: Final = r'"id"\s*:\s*(?:(?P<number>\d{1,15})|"(?P<text>[^"\\]{1,100})")'
_VERSION_PATTERN: Final = r'"jsonrpc"\s*:\s*"2\.0"'
# Patterns of the id in a message whose JSON is invalid. Clients write the id at the start or the end of a message.
_ID_PATTERNS: Final = (
    re.compile(rf"\s*\{{\s*{_VERSION_PATTERN}\s*,\s*{_ID_PATTERN}\s*,"),
    re.compile(rf"\s*\{{\s*{_ID_PATTERN}\s*,"),
    re.compile(rf".*[,{{]\s*{_VERSION_PATTERN}\s*,\s*{_ID_PATTERN}\s*\}}\s*", re.DOTALL),
)
_REQUEST_METHODS: Final = frozenset(
    get_args(request.model_fields["method"].annotation)[0] for request in get_args(ClientRequest)
)
# Number of characters at the start and at the end of a line in which the id is searched.
_SEARCHED_CHARS: Final = 300


def create_server(
    name: str,
    *,
    title: str,
    version: str,
    instructions: str,
    tools: Sequence[Tool],
    has_tools_only: bool = False,
) -> MCPServer[Any]:
    """Return a server that has these tools and sends no notifications of changes.

    `has_tools_only`: the server has no prompts and resources, and does not advertise them.
    """
    server = _StdioServer(
        name,
        title=title,
        version=version,
        instructions=instructions,
        tools=list(tools),
        log_level="WARNING",
        subscriptions=False,
    )
    server.middleware.append(_describe_invalid_parameters)
    if has_tools_only:
        server.remove_handlers("prompts/", "resources/")
    return server


async def _describe_invalid_parameters(
    ctx: ServerRequestContext[Any, Any], call_next: CallNext
) -> HandlerResult:
    """Handle a message of the client, and say which of its parameters is invalid; the library does not."""
    try:
        return await call_next(ctx)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        field = ".".join(map(str, problem["loc"]))
        message = f"Invalid parameters of {ctx.method}: `{field}`: {problem['msg']}."
        raise MCPError(INVALID_PARAMS, message) from error


def serve_stdio(
    server: MCPServer[Any], log_level: str, *, on_exit: Callable[[], None] = lambda: None
) -> NoReturn:
    """Serve one client on stdin and stdout until it disconnects or sends a signal, then exit the process.

    `on_exit` runs before the exit. The exit does not wait for threads, because nobody reads their answers any more.
    Some clients send a signal to a server that exits slowly; others send only a signal.
    """
    process.configure_log(log_level)

    def exit_process(code: int) -> NoReturn:
        on_exit()
        git_cli.kill_running()
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
    async with stdio_server(lines or _open_stdin(), lines) as (incoming, outgoing):
        stream = MessageStream(incoming, outgoing)
        await lowlevel_server.run(stream, outgoing, lowlevel_server.create_initialization_options())


def _open_stdin() -> Any:
    """Return stdin as an asynchronous text file. Child processes get the null device as theirs.

    The file that the library opens would also end a line at a carriage return, which is white space in JSON.
    """
    descriptor = os.dup(0)
    with open(os.devnull, "rb") as null:  # noqa: PTH123 - its descriptor is used
        os.dup2(null.fileno(), 0)
    return anyio.wrap_file(open(descriptor, encoding="utf-8", errors="replace", newline="\n"))  # noqa: PTH123


class MessageStream:
    """Stream of a client's messages. It skips invalid lines, and answers them with an error if they are not blank."""

    def __init__(self, incoming: Any, outgoing: Any) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    @property
    def last_context(self) -> Any:
        """Context of the last message, which the library reads."""
        return self._incoming.last_context

    async def receive(self) -> Any:
        """Return the next valid message."""
        return await self._skip_invalid(self._incoming.receive)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._incoming.aclose()

    def __aiter__(self) -> MessageStream:
        return self

    async def __anext__(self) -> Any:
        return await self._skip_invalid(self._incoming.__anext__)

    async def _skip_invalid(self, read_message: Callable[[], Awaitable[Any]]) -> Any:
        while (error := _find_error(message := await read_message())) is not None:
            if not _is_blank(message):
                await self._outgoing.send(SessionMessage(error))
        return message

    async def __aenter__(self) -> MessageStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _find_error(message: Any) -> JSONRPCError | None:
    """Return the error that answers an invalid message; None for a valid one."""
    if isinstance(message, Exception):
        return _build_message_error(message)
    content = message.message
    # The library treats a request with an invalid id as a notification, and so does not answer it.
    if isinstance(content, JSONRPCNotification) and content.method in _REQUEST_METHODS:
        text = f"{content.method} is a request. Give it an id that is a text or an integer."
        return JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=INVALID_REQUEST, message=text))
    return None


def _is_blank(message: Any) -> bool:
    """Check whether an invalid message is a line of white space."""
    if not isinstance(message, ValidationError):
        return False
    problem = message.errors()[0]
    return problem["type"] == "json_invalid" and not problem["input"].strip()


def _build_message_error(error: Exception) -> JSONRPCError:
    message_id, code, reason = None, PARSE_ERROR, str(error)
    if isinstance(error, ValidationError):
        problems = error.errors(include_url=False)
        reason, location = problems[0]["msg"], problems[0]["loc"]
        if problems[0]["type"] != "json_invalid":
            code = INVALID_REQUEST
            # The location is a type of message, and the field if the message is an object.
            reason = f"`{location[1]}`: {reason}" if len(location) > 1 else reason
        # The input is the line if it is no valid JSON, the message if it lacks a field, else a part of the message.
        ids = (
            _find_message_id(problem["input"])
            for problem in problems
            if problem["type"] == "json_invalid"
            or (problem["type"] == "missing" and len(problem["loc"]) <= 2)
        )
        message_id = next((found for found in ids if found is not None), None)
    message = (
        f"The server cannot parse the message: {reason[:200]}. Correct its JSON, or nest it less deeply."
        if code == PARSE_ERROR
        else f"The message is not a valid request: {reason[:200]}."
    )
    return JSONRPCError(jsonrpc="2.0", id=message_id, error=ErrorData(code=code, message=message))


def _find_message_id(content: Any) -> int | str | None:
    """Return the id of an invalid message, or None. `content`: the message, or its line if that is no valid JSON."""
    if isinstance(content, dict):
        return content["id"] if isinstance(content.get("id"), (int, str)) else None
    if not isinstance(content, str):
        return None
    start, end = content.removeprefix("\ufeff")[:_SEARCHED_CHARS], content[-_SEARCHED_CHARS:]
    for pattern, text in zip(_ID_PATTERNS, (start, start, end), strict=True):
        if match := pattern.match(text):
            return int(match["number"]) if match["number"] else match["text"]
    return None


def _report_failures(failures: BaseExceptionGroup[BaseException]) -> int:
    """Print the failures of the server to stderr and return the exit code. A disconnected client is no failure."""
    _, server_failures = failures.split(BrokenPipeError)
    if server_failures is None:
        return 0
    # An OSError comes from stdin or stdout, because tools send their errors to the client.
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
