"""A real pseudo-terminal with a person's eyes and fingers: what is on its screen, and keys pressed."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyte

ROOT: Final = Path(__file__).parents[3]
ENTER: Final = "\r"
DOWN: Final = "\x1b[B"
ESCAPE: Final = "\x1b"
CONTROL_C: Final = "\x03"
ROWS, COLUMNS = 40, 200
# A loaded machine may take this long to start Python.
PATIENCE: Final = 60.0


class _Screen(pyte.Screen):
    """What is shown; what the terminal answers is typed for it."""

    def __init__(self, press: Callable[[str], None]) -> None:
        super().__init__(COLUMNS, ROWS)
        self._press = press

    def write_process_input(self, data: str) -> None:
        self._press(data)


class Terminal:
    """A program at a terminal. The terminal answers what programs ask it, such as where its cursor is."""

    def __init__(self, *arguments: str, folder: Path, **environment: str) -> None:
        self._screen = _Screen(self.press)
        self._stream = pyte.ByteStream(self._screen)
        self._open = True
        surroundings = os.environ | {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT)} | environment
        command = [sys.executable, "-m", "serve.cli.app", *arguments]
        self._process, self._fd = pty.fork()
        if not self._process:
            os.chdir(folder)
            os.execve(sys.executable, command, surroundings)  # noqa: S606 - this interpreter, with what a test asks
        size = struct.pack("HHHH", ROWS, COLUMNS, 0, 0)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, size)

    def press(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    @property
    def screen(self) -> str:
        """What a person sees."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def see(self, text: str) -> str:
        """Wait until a text is on the screen; the screen."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.screen:
            if not self._open or time.monotonic() > deadline:
                raise AssertionError(f"{text!r} did not appear:\n{self.screen}")
            self._read()
        return self.screen

    def end(self) -> int:
        """Wait for the program; its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._open and time.monotonic() < deadline:
            self._read()
        os.close(self._fd)
        return os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])

    def _read(self) -> None:
        if not select.select([self._fd], [], [], 0.1)[0]:
            return
        try:
            data = os.read(self._fd, 65_536)
        except OSError:  # how Linux says that the other end is closed
            data = b""
        self._open = bool(data)
        self._stream.feed(data)
