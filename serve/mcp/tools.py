"""Tools of both MCP servers: strict arguments, short schemas, and errors as texts for the model.

The `mcp` library ignores unknown arguments, reports wrong arguments with Pydantic's messages, and hides other errors
from the model.
"""

from __future__ import annotations

import functools
import inspect
import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast

import anyio.to_thread
from mcp.server.mcpserver.context import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, TextContent, ToolAnnotations
from pydantic import ConfigDict, ValidationError
from pydantic.json_schema import SkipJsonSchema

from pipeline import cancellation
from serve.errors import NeedsRebuild
from serve.text import escape_controls
from stores import errors

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
        except Exception as error:
            lineage_error = errors.to_lineage_error(error)
            if lineage_error is None and not isinstance(error, OSError):
                raise
            raise ToolError(str(lineage_error or error)) from error
        finally:
            cancelled.set()  # an abandoned thread ends at its next stage

    return run
