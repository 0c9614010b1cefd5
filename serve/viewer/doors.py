"""Who may ask: only programs of this machine that mean this viewer, and only pages that came from it.

A page of another site can have a name of its own lead to 127.0.0.1, and then read whatever answers there. Its
requests still say that name: so no host but ours is answered, and no port but ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tornado.httputil import HTTPHeaders

from stores.errors import LineageError

NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
# What a browser may leave out.
HTTP_PORT: Final = 80
# What browsers say of a request that a page of ours makes, and of an address that a person typed in.
OURS: Final = frozenset({"same-origin", "none"})


class ForeignHost(LineageError):
    """The request names another host or port than the viewer's."""


class ForeignOrigin(LineageError):
    """The request was made by a page of another site."""


@dataclass(frozen=True, slots=True)
class Doors:
    """The doors of the viewer at this port."""

    port: int

    @property
    def hosts(self) -> frozenset[str]:
        """What may stand in `Host`."""
        bare = NAMES if self.port == HTTP_PORT else ()
        return frozenset((*(f"{name}:{self.port}" for name in NAMES), *bare))

    def check_host(self, headers: HTTPHeaders) -> None:
        """Refuse a request that does not name this viewer, once and exactly."""
        said = headers.get_list("Host")
        if len(said) != 1 or said[0].lower() not in self.hosts:
            raise ForeignHost(
                f"This viewer does not answer for {', '.join(said) or 'a request without a host'}.",
                hint=f"Open http://127.0.0.1:{self.port}/, through a tunnel with this port at both ends.",
            )

    def check_origin(self, headers: HTTPHeaders) -> None:
        """Refuse a request that a page from elsewhere makes; programs that are no browsers say nothing of origin."""
        host = headers.get("Host", "").lower()
        said = [origin.lower() for origin in headers.get_list("Origin")]
        site = headers.get("Sec-Fetch-Site", "none").lower()
        if site not in OURS or said not in ([], [f"http://{host}"]):
            raise ForeignOrigin(
                "This viewer answers its own page only, and no page of another site.",
                hint=f"Open http://{host}/.",
            )
