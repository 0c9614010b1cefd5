"""The port, or the next one that is free."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from typing import Final

from serve.viewer.announcing import HOST
from stores.errors import LineageError

# Of no service that is registered, and of no program that developers commonly run.
DEFAULT_PORT: Final = 4870
# More viewers than anybody has.
TRIES: Final = 50
LAST_PORT: Final = 65_535
BACKLOG: Final = 512


class NoPort(LineageError):
    """No port could be had."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A socket that listens on a port."""

    socket: socket.socket
    port: int


def bound(port: int) -> Bound:
    """Listen on this port or, where it is taken, on the next that is free; 0 is any."""
    last = min(port + TRIES - 1, LAST_PORT) if port else 0
    for tried in range(port, last + 1):
        try:
            listening = socket.create_server((HOST, tried), backlog=BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise NoPort(
                    f"Port {tried} cannot be had: {error.strerror}.", hint="Name another with --port."
                ) from error
        else:
            listening.setblocking(False)
            return Bound(listening, listening.getsockname()[1])
    raise NoPort(f"The ports {port} to {last} are all taken.", hint="Name another with --port.")
