"""Questions put to the daemon, started where there is none, replaced where it is another program."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Final, TypeVar

from pipeline.options import Precision
from serve.api_types import ExplainAnswer, ExplainRequest, FindAnswer, FindRequest
from serve.daemon import process, protocol
from serve.daemon.process import Address, NoDaemon, build, person
from stores.errors import LineageError

# A question may wait 10 s for a writer, and as long for a cold disk.
ANSWER_SECONDS: Final = 120.0
# Once for a daemon that is not there, once for one of another program, once for one that dies while it answers,
# and once more for the bad luck of two of these.
TRIES: Final = 4
# A question that ends the daemon twice would end the third one too, and those who ask it.
DEATHS: Final = 2
STOPPING_SECONDS: Final = 0.05

Kind = TypeVar("Kind")


class DaemonFailed(LineageError):
    """The daemon met an error that nobody foresaw."""


class _Died(Exception):
    """The daemon ended while it answered."""


class _Connection(HTTPConnection):
    def __init__(self, address: Address, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._address = address

    def connect(self) -> None:
        self.sock: socket.socket = process.connected(self._address)
        self.sock.settimeout(self.timeout)


@dataclass(frozen=True, slots=True)
class Remote:
    """Answers both questions through the daemon of a home; NoDaemon where there can be none.

    `precision` is what candidates are to be read in; `patience`: seconds to wait for a word of the daemon.
    """

    address: Address
    precision: Precision = Precision.FULL
    patience: float = ANSWER_SECONDS

    def find(self, request: FindRequest, path: Path) -> FindAnswer:
        """As `Finder.find`."""
        return self._ask("/find", protocol.Find(str(path), self.precision, request), FindAnswer)

    def explain(self, request: ExplainRequest, path: Path, here: Path | None = None) -> ExplainAnswer:
        """As `Explainer.explain`."""
        question = protocol.Explain(str(path), str(here) if here else None, request)
        return self._ask("/explain", question, ExplainAnswer)

    def report(self) -> protocol.Report | None:
        """How the daemon is; None where none runs, or the one that runs is ending. Nothing is started."""
        try:
            said = self._said("GET", "/status", b"", {})
        except _Died:
            return None
        return (
            None
            if said is None or said[0] == protocol.STOPPING
            else _read(*said, protocol.Report, self.address)
        )

    def stop(self, build: str | None = None) -> bool:
        """Have the daemon answer what it was asked, and end; whether there was one.

        With a build, only a daemon of that program ends.
        """
        meant = {} if build is None else {protocol.BUILD_HEADER: build}
        with suppress(_Died):  # as it was asked to
            if self._said("POST", "/stop", b"", meant) is None:
                return False
        if build is None:
            process.gone(self.address)
        return True

    def _ask(self, target: str, question: object, kind: type[Kind]) -> Kind:
        body, deaths = protocol.packed(question), 0
        for _ in range(TRIES):
            try:
                said = self._said("POST", target, body, _who())
            except _Died as error:
                deaths += 1
                if deaths == DEATHS:
                    raise _failed("The daemon ended while it answered, twice.", self.address) from error
                continue
            if said is None:
                process.start(self.address)
            elif said[0] == protocol.OTHER_BUILD:
                self.stop(said[1].decode())
            elif said[0] == protocol.STOPPING:
                time.sleep(STOPPING_SECONDS)
            else:
                return _read(*said, kind, self.address)
        raise NoDaemon("The daemon does not stay.", hint=f"Its log is {self.address.log}.")

    def _said(
        self, method: str, target: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes] | None:
        """Status and body of a response; None where nobody was there to give it."""
        connection = _Connection(self.address, self.patience)
        try:
            try:
                connection.connect()
            except (FileNotFoundError, NotADirectoryError, ConnectionError):
                return None
            connection.request(method, target, body, headers)
            response: HTTPResponse = connection.getresponse()
            return response.status, response.read()
        except TimeoutError as error:
            raise NoDaemon(f"The daemon did not answer within {self.patience:g} s.") from error
        except (ConnectionError, HTTPException) as error:
            raise _Died from error
        except OSError as error:
            raise NoDaemon(f"The daemon cannot be met: {error}") from error
        finally:
            connection.close()


def _who() -> dict[str, str]:
    return {protocol.BUILD_HEADER: build(), protocol.PERSON_HEADER: person()}


def _read(status: int, body: bytes, kind: type[Kind], address: Address) -> Kind:
    if status == protocol.REFUSED:
        raise protocol.unpacked(body, protocol.Refusal).error
    if status == protocol.OTHER_PERSON:
        raise NoDaemon("The daemon goes by the settings of another HOME.")
    if status != HTTPStatus.OK:
        raise _failed("The daemon met an error that nobody foresaw.", address)
    try:
        return protocol.unpacked(body, kind)
    except ValueError as error:
        raise NoDaemon(
            "The daemon is of another version than this program.", hint="Start this program again."
        ) from error


def _failed(what: str, address: Address) -> DaemonFailed:
    return DaemonFailed(
        what,
        hint=f"Its log says more: {address.log}. With --no-daemon, or LINEAGE_NO_DAEMON=1, it is not asked.",
    )
