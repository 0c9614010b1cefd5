"""Messages of the user to the agents of maps: answers to questions, and comments.

The viewer's page writes them into the documents of the maps. Each message is delivered once: in the field `fromUser` of
the answer to a call about the map, or to a call that waits. An answer goes to the session that asked, a comment to the
session that calls first; see `mindmap.questions`.
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
from pipeline.interrupts import check_cancelled
from serve.mcp.mindmap_types import AnswerResult, OutputType, add_messages
from serve.viewer import discovery
from stores.errors import LineageError
from stores.mindmap_files import NoSuchMindmap, format_file_name

# Interval at which a call that waits for an answer checks for a change of the map.
POLL_SECONDS: Final = 0.25
# Interval at which a waiting call also checks whether a page is open, with a local HTTP request.
PAGE_CHECK_SECONDS: Final = 5.0
# This many checks in a row without an open page end a wait. After one check, the page may come back, because it was
# reloaded or its viewer restarted.
CHECKS_WITHOUT_PAGE: Final = 2
# Interval of these checks until one of them finds an open page, so that a wait without a page ends soon.
FIRST_PAGE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class UserMessages:
    """Messages of the user to one client.

    `session`: id of the client, which gets the answers to its questions. `is_stopping`: returns True when the program
    ends, so that calls stop waiting.
    """

    store: MapStore
    session: str
    is_stopping: Callable[[], bool]

    def add_pending_messages(self, function: Callable[..., OutputType]) -> Callable[..., OutputType]:
        """Wrap a tool's function, so that its answer also has the undelivered messages about the map of the call."""

        @functools.wraps(function)
        def call_and_add_messages(**arguments: Any) -> OutputType:
            mindmap_id: str = arguments.get("mindmapId", "")
            pending = self._list_pending(mindmap_id) if mindmap_id else {}
            result = function(**arguments)
            if not pending:
                return result
            check_cancelled()  # nobody reads the answer to a cancelled call
            # Messages are marked as delivered after the call, because it may fail. They are listed before the call,
            # because it may remove their node or map.
            return add_messages(result, self._deliver(mindmap_id, pending)[0].values())

        return call_and_add_messages

    async def wait_for_answer(self, mindmap_id: str, question_id: str, seconds: float) -> AnswerResult:
        """Wait until the question is answered, another message is pending, no page is open, or `seconds` have passed.

        The wait also ends when the program ends. Raises UnknownQuestion.
        """
        version, next_check = None, 0.0
        problem, checks_without_page, check_interval = "", 0, FIRST_PAGE_SECONDS
        deadline = time.monotonic() + seconds
        while True:
            new_version = self._read_version(mindmap_id)
            is_check_due = time.monotonic() >= next_check
            if new_version is None or new_version != version or is_check_due:
                version = new_version
                document = await to_thread.run_sync(self.store.read, mindmap_id)
                _, question = find_question(document, question_id)
                if question.answer is not None or list_messages(document, self.session):
                    break
            if is_check_due:
                problem = await to_thread.run_sync(self.find_page_problem, mindmap_id)
                checks_without_page = checks_without_page + 1 if problem else 0
                if not problem:
                    check_interval = PAGE_CHECK_SECONDS
                next_check = time.monotonic() + check_interval
            is_page_closed = checks_without_page == CHECKS_WITHOUT_PAGE
            if is_page_closed or time.monotonic() >= deadline or self.is_stopping():
                break
            await sleep(POLL_SECONDS)
        messages, delivered = await to_thread.run_sync(self._deliver, mindmap_id, {})
        messages.pop(question_id, None)
        if delivered:
            with suppress(UnknownQuestion):  # its node was removed after the last read
                _, question = find_question(delivered, question_id)
        answer = question.answer or ""
        hint = "" if answer else problem or "The user has not answered. Wait again, or go on."
        return add_messages(
            AnswerResult(question_id=question_id, answer=answer, hint=hint), messages.values()
        )

    def find_page_problem(self, mindmap_id: str) -> str:
        """Return why the user cannot see a question now, and what to do. Return an empty text if a page is open."""
        if discovery.is_page_open(self.store.path):
            return ""
        address = discovery.read_address(self.store.path, mindmap_id)
        action = f"open {address}" if address else f"run `{discovery.START_COMMAND} --open`"
        return f"No page is open, so the user does not see the question. Ask in the chat, or let the user {action}."

    def _list_pending(self, mindmap_id: str) -> dict[str, str]:
        with suppress(LineageError):  # the call itself reports this error
            return list_messages(self.store.read(mindmap_id), self.session)
        return {}

    def _deliver(self, mindmap_id: str, pending: Mapping[str, str]) -> tuple[dict[str, str], Mindmap | None]:
        """Mark the pending messages of the map as delivered; return them and the changed map.

        `pending`: messages that were pending before the call. If the call removed their node or map, they are returned
        too. Messages that another session received meanwhile are not returned. If the map cannot be read or written,
        its messages stay pending, and the returned map is None.
        """
        messages: dict[str, str] = {}

        def mark(document: Mindmap) -> EditResult | None:
            messages.update(list_messages(document, self.session))
            changed = EditResult(mark_delivered(document, self.session, utc_now()), "") if messages else None
            messages.update({name: text for name, text in pending.items() if not has_message(document, name)})
            return changed

        try:
            document, _ = self.store.change(mindmap_id, mark)
        except NoSuchMindmap:
            return dict(pending), None
        except LineageError:  # an error here would hide the result of the call
            return {}, None
        return messages, document

    def _read_version(self, mindmap_id: str) -> tuple[int, int] | None:
        """Return a value that changes with each write of a map's file; None if the file cannot be read."""
        try:
            status = (self.store.path / format_file_name(mindmap_id)).stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns
