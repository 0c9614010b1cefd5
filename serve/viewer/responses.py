"""Rules for requests and responses: host and origin checks, gzip, error responses, files of the page.

A site can resolve its own host name to 127.0.0.1 and then read the responses of local servers (DNS rebinding). Such
requests have the site's name in `Host`, so the viewer answers only requests with its own names and port.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec
from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.web import GZipContentEncoding, HTTPError

import mindmap
from mindmap.document import DamagedMindmap, ForeignMindmap
from mindmap.questions import AlreadyAnswered, UnknownQuestion
from mindmap.tree import UnknownNode
from mindmap.validation import BadPath, BadText, NoWorkspace, OverLimit
from serve.errors import BadRequest
from stores.errors import LineageError
from stores.mindmap_files import (
    BadMindmapId,
    FolderUnusable,
    MindmapBusy,
    MindmapTooLarge,
    NoSuchMindmap,
    NotAPlainFile,
)

JSON: Final = "application/json; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"
EVENTS_PATH: Final = "/events"
PAGE_DIRECTORY: Final = Path(mindmap.__file__).parent / "static"
# URL path -> file and media type. Other files of the directory are not served.
PAGE_FILES: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/logo.png": ("logo.png", "image/png"),
    "/favicon.png": ("favicon.png", "image/png"),
}
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
# `Host` has no port if it is this one.
HTTP_PORT: Final = 80
# Values of `Sec-Fetch-Site`: `same-origin` for requests of the viewer's page, `none` for addresses the user typed.
ALLOWED_FETCH_SITES: Final = frozenset({"same-origin", "none"})
# `gzip;q=0` in `Accept-Encoding`, with which a client refuses gzip.
_REFUSES_GZIP: Final = re.compile(r"\bgzip\s*;\s*q=0(\.0*)?\s*(,|$)")


class Compression(GZipContentEncoding):
    """Tornado's gzip transform. It does not compress the event stream, or responses to clients that refuse gzip."""

    # A map of 2 MB takes 12 ms at level 1 and becomes 0.2 MB; at the default level 6, 60 ms and 0.15 MB.
    GZIP_LEVEL = 1
    # Browsers request maps often and the page rarely, so its script may take 12 ms more at level 9; this saves 10 kB.
    PAGE_GZIP_LEVEL: Final = 9

    def __init__(self, request: HTTPServerRequest) -> None:
        super().__init__(request)
        if request.path in PAGE_FILES:
            self.GZIP_LEVEL = self.PAGE_GZIP_LEVEL
        if request.path == EVENTS_PATH or _REFUSES_GZIP.search(request.headers.get("Accept-Encoding", "")):
            self._gzipping = False


class ForeignHost(LineageError):
    """Error for a `Host` header with another host or port than the viewer's."""


class ForeignOrigin(LineageError):
    """Error for a request of another site's page."""


@dataclass(frozen=True, slots=True)
class RequestOriginPolicy:
    """Host and origin checks for requests to the viewer at `port`."""

    port: int

    @property
    def allowed_hosts(self) -> frozenset[str]:
        """The accepted values of `Host`."""
        names_without_port = LOOPBACK_NAMES if self.port == HTTP_PORT else ()
        return frozenset((*(f"{name}:{self.port}" for name in LOOPBACK_NAMES), *names_without_port))

    def check_host(self, headers: HTTPHeaders) -> None:
        """Raise ForeignHost unless the request has exactly one `Host` header, with one of `allowed_hosts`."""
        hosts = headers.get_list("Host")
        if len(hosts) != 1 or hosts[0].lower() not in self.allowed_hosts:
            raise ForeignHost(
                f"The viewer does not answer requests for {', '.join(hosts) or 'an unnamed host'}.",
                hint=f"Open http://127.0.0.1:{self.port}/. From another machine, forward the same port.",
            )

    def check_origin(self, headers: HTTPHeaders) -> None:
        """Raise ForeignOrigin for a request of another site's page. Requests without origin headers pass."""
        host = headers.get("Host", "").lower()
        origins = [origin.lower() for origin in headers.get_list("Origin")]
        site = headers.get("Sec-Fetch-Site", "none").lower()
        if site not in ALLOWED_FETCH_SITES or origins not in ([], [f"http://{host}"]):
            raise ForeignOrigin(
                "The viewer answers requests of its own page only.",
                hint=f"Open http://{host}/.",
            )


class TooLarge(LineageError):
    """Error for a request body that exceeds the limit."""


class NotJson(LineageError):
    """Error for a request whose content type is not JSON."""


class NotTouched(LineageError):
    """Error for a path that is no file of the map's nodes."""


class NotInRepository(LineageError):
    """Error for a commit that the repository lacks, or a file that the commit lacks or does not change."""


class NoSuchRoute(LineageError):
    """Error for a path without a route."""


class NotBuilt(LineageError):
    """Error for a file of the page that is missing or cannot be read."""


class TooBusy(LineageError):
    """Error for too many requests or listeners at once."""


class TookTooLong(LineageError):
    """Error for a slow task, usually of git, that did not finish in time."""


# 400: correct the request. 409: correct the map or its workspace first. 500: a map's file or directory is unusable.
# An error that is not listed has status 422; most such errors come from git.
STATUSES: Final[dict[type[LineageError], HTTPStatus]] = {
    BadRequest: HTTPStatus.BAD_REQUEST,
    BadMindmapId: HTTPStatus.BAD_REQUEST,
    BadPath: HTTPStatus.BAD_REQUEST,
    BadText: HTTPStatus.BAD_REQUEST,
    ForeignHost: HTTPStatus.FORBIDDEN,
    ForeignOrigin: HTTPStatus.FORBIDDEN,
    NoSuchMindmap: HTTPStatus.NOT_FOUND,
    NotTouched: HTTPStatus.NOT_FOUND,
    NotInRepository: HTTPStatus.NOT_FOUND,
    UnknownNode: HTTPStatus.NOT_FOUND,
    UnknownQuestion: HTTPStatus.NOT_FOUND,
    NoSuchRoute: HTTPStatus.NOT_FOUND,
    NotBuilt: HTTPStatus.NOT_FOUND,
    NoWorkspace: HTTPStatus.CONFLICT,
    AlreadyAnswered: HTTPStatus.CONFLICT,
    MindmapBusy: HTTPStatus.CONFLICT,
    OverLimit: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    NotJson: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    DamagedMindmap: HTTPStatus.INTERNAL_SERVER_ERROR,
    ForeignMindmap: HTTPStatus.INTERNAL_SERVER_ERROR,
    MindmapTooLarge: HTTPStatus.INTERNAL_SERVER_ERROR,
    NotAPlainFile: HTTPStatus.INTERNAL_SERVER_ERROR,
    FolderUnusable: HTTPStatus.INTERNAL_SERVER_ERROR,
    TooBusy: HTTPStatus.SERVICE_UNAVAILABLE,
    TookTooLong: HTTPStatus.GATEWAY_TIMEOUT,
}
# Places between the words of a class name: `NoSuchRoute`, `HTTPError`.
_WORD_BOUNDARY: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """Error response: `{"error": {"code", "message", "hint"}}` with an HTTP status.

    `code`: name of the error's class in snake_case; for an error of the web server, name of the status.
    """

    status: int
    code: str
    message: str
    hint: str = ""

    @property
    def content(self) -> bytes:
        """The JSON body."""
        # A path in the message may not be UTF-8.
        message, hint = (
            text.encode("utf-8", "backslashreplace").decode() for text in (self.message, self.hint)
        )
        return msgspec.json.encode({"error": {"code": self.code, "message": message, "hint": hint}})

    @classmethod
    def from_error(cls, error: BaseException | None, status: int) -> ErrorResponse:
        """Return the response for an error. `status` is used unless the error is a LineageError."""
        if isinstance(error, LineageError):
            statuses = (STATUSES[base] for base in type(error).__mro__ if base in STATUSES)
            status = next(statuses, HTTPStatus.UNPROCESSABLE_ENTITY)
            return cls(status, format_error_code(error), error.message, error.hint)
        message = (error.get_message() if isinstance(error, HTTPError) else "") or HTTPStatus(status).phrase
        hint = "See the viewer's log." if status >= HTTPStatus.INTERNAL_SERVER_ERROR else ""
        is_internal = status == HTTPStatus.INTERNAL_SERVER_ERROR
        code = "internal_error" if is_internal else HTTPStatus(status).name.lower()
        return cls(status, code, f"{message.removesuffix('.')}.", hint)


def format_error_code(error: LineageError) -> str:
    """Return the error's code in JSON: its class name in snake_case."""
    return _WORD_BOUNDARY.sub("_", type(error).__name__).lower()


def read_page_file(directory: Path, path: str) -> tuple[bytes, str]:
    """Return content and media type of the page's file at a URL path. Raise NotBuilt if it cannot be read."""
    name, media_type = PAGE_FILES[path]
    file = directory / name
    try:
        return file.read_bytes(), media_type
    except OSError as error:
        raise NotBuilt(
            f"Cannot read the page's file {file}: {error.strerror}.",
            hint="Reinstall mindmap. In a source checkout, build the page instead.",
        ) from error
