"""Lines from a client that are no messages: answered, where the library would leave the client to wait.

What is nested deeper than its reader goes is such a line. Its id is taken where clients put it, in front or at the end.
"""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any, Final

from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

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
            await self._answers.send(SessionMessage(_refusal(message)))
        return message

    async def aclose(self) -> None:
        """No more of them are wanted."""
        await self._lines.aclose()

    def __aiter__(self) -> Messages:
        return self

    async def __anext__(self) -> Any:
        while isinstance(message := await self._lines.__anext__(), Exception):
            await self._answers.send(SessionMessage(_refusal(message)))
        return message

    async def __aenter__(self) -> Messages:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _refusal(error: Exception) -> JSONRPCError:
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
