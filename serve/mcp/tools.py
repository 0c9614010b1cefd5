"""Shared parts of both MCP servers: creation of tools, queue and progress of calls, and the `repository` argument.

These tools replace the tools of the `mcp` library, which ignore unknown arguments, report wrong arguments with
Pydantic's messages, and hide other errors from the model.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import threading
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

import anyio
import anyio.from_thread
import anyio.to_thread
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver.context import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolResult,
    ClientCapabilities,
    ListRootsRequest,
    Result,
    RootsCapability,
    TextContent,
    ToolAnnotations,
)
from pydantic import ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.json_schema import SkipJsonSchema, WithJsonSchema

from pipeline import interrupts
from pipeline.git.errors import NotARepository
from serve.errors import BadRequest, NeedsRebuild
from serve.server_common import CallQueue, hold_turn
from serve.text import add_path_to_commands, escape_controls, set_path_argument
from stores import errors

# Maximum number of wrong arguments that an error message describes. More would only cost the model tokens.
MAX_PROBLEMS: Final = 5
# Interval of progress notifications. Clients cancel a call that reports no progress for 30 to 60 s.
PROGRESS_SECONDS: Final = 2.0

ResultType = TypeVar("ResultType")
# Maximum wait for the answer to `roots/list`, because a client that announces roots may never answer.
ROOTS_TIMEOUT_SECONDS: Final = 5.0
# Null as the type of an optional argument. Schemas omit this type, because it costs as many tokens as a description.
HiddenNull = SkipJsonSchema[None]


class _TextOrListSchema:
    """Schema of a list of texts that may also be a single text.

    The published schema has only the list, because some clients refuse tools with `anyOf`.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        return handler.generate_schema(source | list[source])

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "string"}}


# Annotated as `str`, because otherwise the library parses a text such as `[]` as JSON.
if TYPE_CHECKING:
    TextOrList: TypeAlias = str | list[str]
else:
    TextOrList: TypeAlias = Annotated[str, _TextOrListSchema()]


def describe_list(description: str | None = None, item_type: str = "string") -> WithJsonSchema:
    """Return the schema of a list of texts or objects, for an argument whose own schema would be longer.

    The argument may also accept a single text. For objects, name the fields in the description, because the schema
    omits them. Errors describe wrong fields.
    """
    return WithJsonSchema({"description": description, "type": "array", "items": {"type": item_type}})


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
    annotations: ToolAnnotations,
    title: str | None = None,
    description: str | None = None,
    returns_text: bool = False,
) -> Tool:
    """Return a tool that runs `function` and rejects unknown arguments. A function that is not async runs in a thread.

    The description defaults to the function's docstring. The model gets the text of a LineageError or OSError as the
    tool's result; NeedsRebuild becomes the protocol's error for invalid parameters. If a non-async `function` calls
    `set_path_argument`, that path is added to the commands in these texts. `returns_text`: see `_StrictTool`.
    """
    wrapped = _wrap_function(function)
    # `from_function` is typed to return a `Tool`, but returns an instance of the class it is called on.
    tool = cast(
        "_StrictTool",
        _StrictTool.from_function(wrapped, title=title, description=description, annotations=annotations),
    )
    tool.returns_text = returns_text
    tool.fn_metadata.arg_model.model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    tool.fn_metadata.arg_model.model_rebuild(force=True)
    schema = tool.fn_metadata.arg_model.model_json_schema(by_alias=True)
    tool.parameters = _strip_input_schema(schema, schema.get("$defs", {}))
    return tool


class _StrictTool(Tool):
    """Tool that describes wrong arguments in plain language, and reports its errors without the library's prefix.

    `returns_text`: the function returns a `CallToolResult` whose text is sent. Otherwise, the text is the structured
    content in JSON.
    """

    returns_text: bool = False

    @functools.cached_property
    def output_schema(self) -> dict[str, Any] | None:
        """Schema with only the field names; None if the text is the structured content as JSON.

        Some clients send the schema with every request, and a complete one would cost more tokens than the answers.
        """
        schema = self.fn_metadata.output_schema
        if schema is None or not self.returns_text:
            return None
        return {"type": "object", "properties": {name: {} for name in schema["properties"]}}

    async def run(
        self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False
    ) -> Any:
        properties = self.parameters.get("properties", {})
        # Pydantic takes True for 1, but not the text "True".
        checked_arguments = {
            name: str(value)
            if isinstance(value, bool) and properties.get(name, {}).get("type") == "integer"
            else value
            for name, value in arguments.items()
        }
        try:
            self.fn_metadata.validate_arguments(checked_arguments)
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


def to_list(value: str | list[str], name: str = "") -> list[str]:
    """Return the distinct texts of an argument that is a text or a list of texts.

    `name`: name of the argument. If it is given, an empty list raises BadRequest.
    """
    if name and not isinstance(value, str) and not value:
        raise BadRequest(f"The list `{name}` is empty.", hint="Name at least one.")
    return [value] if isinstance(value, str) else [*dict.fromkeys(value)]


def parse_json_list(text: str) -> list[str]:
    """Return the texts of a JSON list, since some clients send a list as JSON. Empty for any other text."""
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return value
    return []


def build_call_result(text: str, content: dict[str, Any]) -> CallToolResult:
    """Return a result with a text and structured content."""
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=content)


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
    # Besides the problem that matters, Pydantic reports "none_required" for every wrong optional argument.
    problems = [problem for problem in error.errors() if problem["type"] != "none_required"]
    names_with_wrong_item = {problem["loc"][0] for problem in problems if isinstance(problem["loc"][-1], int)}
    problems = [
        problem for problem in problems if not _is_redundant_list_error(problem, names_with_wrong_item)
    ]
    messages = [
        f"{_format_argument_path(problem, arguments)}: {_describe_problem(problem)}"
        for problem in problems[:MAX_PROBLEMS]
    ]
    if len(problems) > MAX_PROBLEMS:
        messages.append(f"Problems not shown: {len(problems) - MAX_PROBLEMS:,}.")
    names = ", ".join(f"`{name}`" for name in tool.parameters.get("properties", {}))
    return f"Invalid arguments for {tool.name}. {' '.join(messages)} Its arguments are {names}."


def _is_redundant_list_error(problem: Any, names_with_wrong_item: Collection[str | int]) -> bool:
    """Check for "should be a string" about a whole list of which another problem names the wrong item."""
    is_item = isinstance(problem["loc"][-1], int)
    is_list_instead_of_text = problem["type"] == "string_type" and isinstance(problem["input"], list)
    return is_list_instead_of_text and not is_item and problem["loc"][0] in names_with_wrong_item


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

    Left out are titles, empty defaults, descriptions of types, and constraints that an error message explains:
    `additionalProperties`, and a `minimum` of 0 or 1.
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
        or (name == "minimum" and part in (0, 1))
    )


def _wrap_function(function: Callable[..., ResultType]) -> Callable[..., Awaitable[ResultType]]:
    """Return the function as `create_tool` runs it: async, with its errors turned into errors of the protocol."""

    @functools.wraps(function)
    async def run(**arguments: Any) -> ResultType:
        cancelled = threading.Event()
        call_context = copy_context()

        def call_function() -> ResultType:
            with hold_turn(), interrupts.use_cancellation_flag(cancelled):
                return function(**arguments)

        try:
            if inspect.iscoroutinefunction(function):
                answer: ResultType = await function(**arguments)
                return answer
            return await anyio.to_thread.run_sync(call_context.run, call_function, abandon_on_cancel=True)
        except NeedsRebuild as error:
            text = escape_controls(call_context.run(add_path_to_commands, str(error)))
            raise MCPError(INVALID_PARAMS, text) from error
        except Exception as error:
            lineage_error = errors.to_lineage_error(error)
            if lineage_error is None and not isinstance(error, OSError):
                raise
            text = escape_controls(call_context.run(add_path_to_commands, str(lineage_error or error)))
            raise ToolError(text) from error
        finally:
            cancelled.set()  # an abandoned thread ends at its next stage

    return run


class QueuedCalls:
    """Middleware of one session: its tool calls wait for their turn in the queue.

    Each call runs in a context that `track_call` returns. While `is_stopping` returns True no new call is started,
    because another server will answer it.
    """

    def __init__(
        self,
        queue: CallQueue,
        track_call: Callable[[], AbstractContextManager[None]] = nullcontext,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._queue = queue
        self._client = queue.create_client()
        self._track_call = track_call
        self._is_stopping = is_stopping

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Handle a message of the client."""
        if ctx.method != "tools/call":
            return await call_next(ctx)
        reporter = asyncio.ensure_future(self._report_progress(ctx))
        try:
            if self._is_stopping():
                await asyncio.Event().wait()  # until the connection is closed
            with self._track_call():
                async with self._queue.take_turn(self._client):
                    return await call_next(ctx)
        finally:
            reporter.cancel()

    async def _report_progress(self, ctx: ServerRequestContext[Any, Any]) -> None:
        """Report the seconds since the call, until cancelled. A client that sent no progress token gets no reports."""
        started_at = time.monotonic()
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the client has disconnected
            while True:
                await asyncio.sleep(PROGRESS_SECONDS)
                waiting_calls = self._queue.waiting_calls
                message = f"Waiting calls: {waiting_calls:,}." if waiting_calls else None
                await ctx.session.report_progress(time.monotonic() - started_at, message=message)


@dataclass(frozen=True, slots=True)
class RepositoryResolver:
    """Resolver of the argument `repository`.

    `home`: directory of the indexes. `directory`: the server's working directory, used if the argument is missing.
    """

    home: Path
    directory: Path

    def resolve(self, name: str | None, context: Context[Any, Any]) -> Path:
        """Return the path of the repository with this name or path.

        Also set it as the PATH argument of the commands that answers and errors suggest.

        Without a name, return the server's directory if it is in a repository, else the first root of the client that
        is in a repository. Call it in a worker thread of anyio.

        Raises BadRequest for an unknown or ambiguous name, and NotARepository, whose hint lists indexed repositories.
        """
        path = self._find_path(name, context)
        set_path_argument(path)
        return path

    def _find_path(self, name: str | None, context: Context[Any, Any]) -> Path:
        # Imported here, because libgit2 would delay the start of the server.
        from pipeline.git.repository import open_repository
        from serve.repositories import describe_indexed_repositories, resolve_repository_path

        if name is not None:
            return resolve_repository_path(self.home, name, self.directory)
        try:
            open_repository(self.directory)
        except NotARepository as error:
            for root in _list_client_roots(context):
                with suppress(NotARepository):
                    open_repository(root)
                    return root
            hint = f"Pass `repository`: a path or a name. {describe_indexed_repositories(self.home)}"
            raise NotARepository(error.message, hint=hint) from error
        return self.directory


class _RootList(Result):
    """Answer to `roots/list`. The library's class rejects all roots if one is not local."""

    roots: list[dict[str, Any]]


def _list_client_roots(context: Context[Any, Any]) -> list[Path]:
    """Return the client's roots that are local directories; empty if it has none."""
    session = context.session
    if not session.check_client_capability(ClientCapabilities(roots=RootsCapability())):
        return []
    try:
        # Not `session.list_roots`, which warns that newer versions of the protocol have no roots.
        result = anyio.from_thread.run(
            session.send_request, ListRootsRequest(), _RootList, ROOTS_TIMEOUT_SECONDS
        )
    except (MCPError, ValueError):  # no answer in time, or an invalid one
        return []
    return [root for uri in result.roots if (root := _parse_root(str(uri.get("uri")))) is not None]


def _parse_root(uri: str) -> Path | None:
    """Return the path of a `file` URI; None for any other text."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else None
