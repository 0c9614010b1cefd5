"""Messages of the user to the agents of maps: answers to questions, and comments.

The page writes them into the documents. A session gets each of them once: with the answer to a call, in the field
`fromUser`, or by waiting for an answer. See `mindmap.questions` for which session gets what.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from anyio import sleep, to_thread

from mindmap.document import EditResult, Mindmap, utc_now
from mindmap.map_store import MapStore
from mindmap.questions import UnknownQuestion, find_question, has_message, list_messages, mark_delivered
from serve.mcp.mindmap_types import AnswerResult, ToolOutput, add_messages
from serve.viewer import discovery
from stores.errors import LineageError
from stores.mindmap_files import NoSuchMindmap, format_file_name

# Interval of the check for a change of the map while a call waits for an answer.
POLL_SECONDS: Final = 0.25
# Interval of the check for an open page meanwhile, a local HTTP request.
PAGE_CHECK_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class UserMessages:
    """Messages of the user to one client.

    `session` is the id of the client, which gets the answers to its questions. `is_stopping` returns True when the
    program ends, so that a call must not wait any longer.
    """

    store: MapStore
    session: str
    is_stopping: Callable[[], bool]

    def add_pending_messages(self, function: Callable[..., ToolOutput]) -> Callable[..., ToolOutput]:
        """Return a tool's function that adds the pending messages about its map to its answer."""

        @functools.wraps(function)
        def call_and_add_messages(**arguments: Any) -> ToolOutput:
            mindmap_id: str = arguments.get("mindmapId", "")
            pending = self._list_pending(mindmap_id) if mindmap_id else {}
            result = function(**arguments)
            # Marked as delivered after the call, as it may fail. It may also have removed the node, or the map.
            return add_messages(result, self._deliver(mindmap_id, pending)[0].values()) if pending else result

        return call_and_add_messages

    async def wait_for_answer(self, mindmap_id: str, question_id: str, seconds: float) -> AnswerResult:
        """Wait until the question is answered, another message is pending, no page is open, or the time is over.

        Raises UnknownQuestion.
        """
        version, problem, next_check = None, "", 0.0
        deadline = time.monotonic() + seconds
        while True:
            new_version = self._read_version(mindmap_id)
            if new_version is None or new_version != version or time.monotonic() >= next_check:
                version, next_check = new_version, time.monotonic() + PAGE_CHECK_SECONDS
                document = await to_thread.run_sync(self.store.read, mindmap_id)
                _, question = find_question(document, question_id)
                if question.answer is not None or list_messages(document, self.session):
                    break
                problem = await to_thread.run_sync(self.find_page_problem, mindmap_id)
            if problem or time.monotonic() >= deadline or self.is_stopping():
                break
            await sleep(POLL_SECONDS)
        messages, delivered = await to_thread.run_sync(self._deliver, mindmap_id, {})
        messages.pop(question_id, None)
        if delivered:
            with suppress(UnknownQuestion):  # its node was removed since it was read
                _, question = find_question(delivered, question_id)
        answer = question.answer or ""
        hint = "" if answer else problem or "The user has not answered. Wait again, or go on."
        return add_messages(
            AnswerResult(question_id=question_id, answer=answer, hint=hint), messages.values()
        )

    def find_page_problem(self, mindmap_id: str) -> str:
        """Return the reason if the user does not see a question now, with what to do; else an empty text."""
        if discovery.is_page_open(self.store.path):
            return ""
        address = discovery.read_address(self.store.path, mindmap_id)
        way = f"open {address}" if address else f"run `{discovery.START_COMMAND} --open`"
        return (
            f"No page is open, so the user does not see the question. Ask in the chat, or let the user {way}."
        )

    def _list_pending(self, mindmap_id: str) -> dict[str, str]:
        with suppress(LineageError):  # the call itself reports that
            return list_messages(self.store.read(mindmap_id), self.session)
        return {}

    def _deliver(self, mindmap_id: str, pending: Mapping[str, str]) -> tuple[dict[str, str], Mindmap | None]:
        """Mark the pending messages as delivered. Return them, with those of `pending` that the map has no more.

        Messages of `pending` that another session has received meanwhile are left out. Also returns the map, in which
        they are marked; None if it cannot be read or written. Then they stay pending.
        """
        messages: dict[str, str] = {}

        def mark(document: Mindmap) -> EditResult | None:
            messages.clear()
            messages.update(list_messages(document, self.session))
            changed = EditResult(mark_delivered(document, self.session, utc_now()), "") if messages else None
            messages.update({name: text for name, text in pending.items() if not has_message(document, name)})
            return changed

        try:
            document, _ = self.store.change(mindmap_id, mark)
        except NoSuchMindmap:
            return dict(pending), None
        except LineageError:  # an error would hide the result of a call that has changed the map
            return {}, None
        return messages, document

    def _read_version(self, mindmap_id: str) -> tuple[int, int] | None:
        """Return a value that differs after each change of a map; None if its file cannot be read."""
        try:
            status = (self.store.path / format_file_name(mindmap_id)).stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns
