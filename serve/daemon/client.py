"""Questions put to the daemon, started where there is none, replaced where it is another program."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Final, TypeVar

from serve.answers import ExplainAnswer, FindAnswer
from serve.daemon import starting, wire
from serve.daemon.address import Address, build
from serve.daemon.starting import NoDaemon
from serve.questions import ExplainRequest, FindRequest
from stores.errors import LineageError

# A question may wait 10 s for a writer, and as long for a cold disk.
ANSWER_SECONDS: Final = 120.0
# Once for a daemon that is not there, once for one of another program, once for one that dies while it answers,
# and once more for the bad luck of two of these.
TRIES: Final = 4
STOPPING_SECONDS: Final = 0.05

Kind = TypeVar("Kind")


class DaemonFailed(LineageError):
    """The daemon met an error that nobody foresaw."""


class _Connection(HTTPConnection):
    def __init__(self, address: Address, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._address = address

    def connect(self) -> None:
        self.sock: socket.socket = starting.connected(self._address)
        self.sock.settimeout(self.timeout)


@dataclass(frozen=True, slots=True)
class Remote:
    """Answers both questions through the daemon of a home; NoDaemon where there can be none."""

    address: Address

    def find(self, request: FindRequest, path: Path) -> FindAnswer:
        """As `Finder.find`."""
        return self._ask("/find", wire.Find(str(path), request), FindAnswer)

    def explain(self, request: ExplainRequest, path: Path, here: Path | None = None) -> ExplainAnswer:
        """As `Explainer.explain`."""
        question = wire.Explain(str(path), str(here) if here else None, request)
        return self._ask("/explain", question, ExplainAnswer)

    def report(self) -> wire.Report | None:
        """How the daemon is; None where none runs. Nothing is started."""
        said = self._said("GET", "/status", b"")
        return wire.unpacked(said[1], wire.Report) if said else None

    def stop(self) -> bool:
        """Have the daemon answer what it was asked, and end; whether there was one."""
        if self._said("POST", "/stop", b"") is None:
            return False
        starting.gone(self.address)
        return True

    def _ask(self, target: str, question: object, kind: type[Kind]) -> Kind:
        body = wire.packed(question)
        for _ in range(TRIES):
            said = self._said("POST", target, body)
            if said is None:
                starting.start(self.address)
            elif said[0] == wire.OTHER_BUILD:
                self.stop()
            elif said[0] == wire.STOPPING:
                time.sleep(STOPPING_SECONDS)
            else:
                return _read(*said, kind, self.address)
        raise NoDaemon("The daemon does not stay.", hint=f"Its log is {self.address.log}.")

    def _said(self, method: str, target: str, body: bytes) -> tuple[int, bytes] | None:
        """Status and body of a response; None where nobody was there to give it, or not to the end."""
        connection = _Connection(self.address, ANSWER_SECONDS)
        try:
            connection.request(method, target, body, {wire.BUILD_HEADER: build()})
            response: HTTPResponse = connection.getresponse()
            return response.status, response.read()
        except TimeoutError as error:
            raise NoDaemon(f"The daemon did not answer within {ANSWER_SECONDS:g} s.") from error
        except (FileNotFoundError, NotADirectoryError, ConnectionError, HTTPException):
            return None
        except OSError as error:
            raise NoDaemon(f"The daemon cannot be met: {error}") from error
        finally:
            connection.close()


def _read(status: int, body: bytes, kind: type[Kind], address: Address) -> Kind:
    if status == wire.REFUSED:
        raise wire.unpacked(body, wire.Refusal).error
    if status != 200:
        raise DaemonFailed(
            "The daemon met an error that nobody foresaw.",
            hint=f"Its log says more: {address.log}. `--no-daemon` answers without it.",
        )
    return wire.unpacked(body, kind)
