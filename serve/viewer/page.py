"""The page's own files: an HTML page, one script, two images."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import mindmap
from serve.viewer.bodies import Body
from serve.viewer.refusals import NotBuilt

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
