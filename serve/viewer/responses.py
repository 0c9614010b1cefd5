"""What is sent: bytes, the tag that says whether they are still the same, and the same packed where that pays.

Who may ask: only programs of this machine that mean this viewer, and only pages that came from it.

A page of another site can have a name of its own lead to 127.0.0.1, and then read whatever answers there. Its
requests still say that name: so no host but ours is answered, and no port but ours.

Errors as answers: a status, and `{"error": {"code", "message", "hint"}}`; the only place that decides either.

The code of an error is its class's name in snake_case. What a person can put right in their request is 400, what
they must put right in the map or its workspace first is 409 or 422, what is wrong with the viewer's own files 500.

The page's own files: an HTML page, one script, two images.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import threading
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec
from tornado.httputil import HTTPHeaders
from tornado.web import HTTPError

import mindmap
from mindmap.document import DamagedMindmap, ForeignMindmap
from mindmap.paths import BadPath, NoWorkspace
from mindmap.validation import BadText, OverLimit
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
# Less travels in as many packets either way.
SMALLEST_PACKED: Final = 4_096
# The loopback is faster than any packing; it pays where a viewer is looked at through a tunnel. The fastest
# level takes a map of 2 MB to 0.2 MB in 12 ms, the default to 0.15 MB in 60.
LEVEL: Final = 1
DIGEST_BYTES: Final = 12


@dataclass(frozen=True, slots=True)
class Body:
    """An answer's body. `tag` is weak: the bytes that travel differ by how they are packed."""

    content: bytes
    kind: str
    tag: str
    packed: bytes | None = None

    @classmethod
    def of(cls, content: bytes, kind: str = JSON, *, pack: bool = True) -> Body:
        """These bytes, of this media type."""
        tag = f'W/"{hashlib.blake2b(content, digest_size=DIGEST_BYTES).hexdigest()}"'
        if not pack or len(content) < SMALLEST_PACKED:
            return cls(content, kind, tag)
        return cls(content, kind, tag, gzip.compress(content, LEVEL, mtime=0))

    @property
    def size(self) -> int:
        """Bytes it keeps."""
        return len(self.content) + len(self.packed or b"")


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


class TooLarge(LineageError):
    """More in a request than the viewer reads."""


class NotJson(LineageError):
    """A request whose content is not said to be JSON."""


class NotTouched(LineageError):
    """A file that the map does not hold."""


class NoSuchRoute(LineageError):
    """A path that is none."""


class NotBuilt(LineageError):
    """A file of the page is not there."""


class TooBusy(LineageError):
    """More is asked for at once than the viewer takes."""


class TookTooLong(LineageError):
    """Somebody else, git most likely, did not answer in time."""


# Whatever is not here is 422: understood, and not to be had as things are, as git puts it in its own words.
STATUSES: Final[dict[type[LineageError], HTTPStatus]] = {
    BadRequest: HTTPStatus.BAD_REQUEST,
    BadMindmapId: HTTPStatus.BAD_REQUEST,
    BadPath: HTTPStatus.BAD_REQUEST,
    BadText: HTTPStatus.BAD_REQUEST,
    ForeignHost: HTTPStatus.FORBIDDEN,
    ForeignOrigin: HTTPStatus.FORBIDDEN,
    NoSuchMindmap: HTTPStatus.NOT_FOUND,
    NotTouched: HTTPStatus.NOT_FOUND,
    NoSuchRoute: HTTPStatus.NOT_FOUND,
    NotBuilt: HTTPStatus.NOT_FOUND,
    NoWorkspace: HTTPStatus.CONFLICT,
    MindmapBusy: HTTPStatus.CONFLICT,
    OverLimit: HTTPStatus.CONFLICT,
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
_WORDS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NAMES: Final = {405: "method_not_allowed", 500: "internal_error"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error as an answer."""

    status: int
    code: str
    message: str
    hint: str = ""

    @property
    def content(self) -> bytes:
        """The answer's body."""
        said = {"code": self.code, "message": self.message, "hint": self.hint}
        return msgspec.json.encode({"error": said})

    @classmethod
    def of(cls, error: BaseException | None, status: int) -> Refusal:
        """How an error is told; `status` is the server's own for one that is not ours."""
        if isinstance(error, LineageError):
            kinds = (STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
            return cls(
                next(kinds, HTTPStatus.UNPROCESSABLE_ENTITY), code_of(error), error.message, error.hint
            )
        said = (error.get_message() if isinstance(error, HTTPError) else "") or HTTPStatus(status).phrase
        hint = "The viewer's log says more." if status >= HTTPStatus.INTERNAL_SERVER_ERROR else ""
        return cls(status, _NAMES.get(status, "bad_request"), f"{said}.".replace("..", "."), hint)


def code_of(error: LineageError) -> str:
    """What programs know the error by."""
    return _WORDS.sub("_", type(error).__name__).lower()


BUILT: Final = Path(mindmap.__file__).parent / "static"
# Path -> file and media type. Nothing else of the folder is sent.
FILES: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/logo.png": ("logo.png", "image/png"),
    "/favicon.png": ("favicon.png", "image/png"),
}


class Page:
    """The files in a folder, each read again when it was written."""

    def __init__(self, folder: Path = BUILT) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[int, Body]] = {}

    def body(self, path: str) -> Body:
        """The file that is shown at a path."""
        name, kind = FILES[path]
        file = self._folder / name
        try:
            with self._lock:
                written = file.stat().st_mtime_ns
                kept = self._kept.get(path)
                if kept is None or kept[0] != written:
                    is_image = kind.startswith("image/")
                    kept = self._kept[path] = written, Body.of(file.read_bytes(), kind, pack=not is_image)
                return kept[1]
        except OSError as error:
            raise NotBuilt(
                f"{file} is not there.", hint="Install the program again; from source, build the page."
            ) from error
