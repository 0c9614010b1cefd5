"""Helpers of tests: terminal output of answers, and programs on a pseudo-terminal with its screen and key presses."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import select
import struct
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import pyte
from rich.console import Console

ROOT: Final = Path(__file__).parents[3]
ENTER: Final = "\r"
DOWN: Final = "\x1b[B"
ESCAPE: Final = "\x1b"
CONTROL_C: Final = "\x03"
ROWS, COLUMNS = 40, 200
# A busy machine may take this long to start Python.
TIMEOUT_SECONDS: Final = 60.0
Answer = TypeVar("Answer")


def format_output(
    print_answer: Callable[[Answer, Console], None], answer: Answer, *, is_colored: bool = False
) -> str:
    """Return what `print_answer` prints on a terminal of 80 columns, without spaces at line ends."""
    screen = io.StringIO()
    console = Console(
        file=screen,
        width=80,
        highlight=False,
        force_terminal=is_colored,
        color_system="standard" if is_colored else None,
    )
    print_answer(answer, console)
    return "".join(f"{line.rstrip()}\n" for line in screen.getvalue().splitlines())


class _Screen(pyte.Screen):
    """Terminal screen; sends the terminal's replies to the program's input."""

    def __init__(self, press: Callable[[str], None]) -> None:
        super().__init__(COLUMNS, ROWS)
        self._press = press

    def write_process_input(self, data: str) -> None:
        self._press(data)


class Terminal:
    """Program on a pseudo-terminal that also answers terminal queries, such as for the cursor position."""

    def __init__(self, *arguments: str, folder: Path, **environment: str) -> None:
        self._screen = _Screen(self.press)
        self._stream = pyte.ByteStream(self._screen)
        self._is_open = True
        environment_variables = os.environ | {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT)} | environment
        command = [sys.executable, "-m", "serve.cli.app", *arguments]
        self._process, self._fd = pty.fork()
        if not self._process:
            os.chdir(folder)
            os.execve(sys.executable, command, environment_variables)  # noqa: S606 - the test's own arguments
        size = struct.pack("HHHH", ROWS, COLUMNS, 0, 0)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, size)

    def press(self, keys: str) -> None:
        """Send keys to the program."""
        os.write(self._fd, keys.encode())

    @property
    def screen(self) -> str:
        """The text on the screen."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def wait_for(self, text: str) -> str:
        """Wait until the screen contains `text`; return the screen."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while text not in self.screen:
            if not self._is_open or time.monotonic() > deadline:
                raise AssertionError(f"{text!r} did not appear:\n{self.screen}")
            self._read()
        return self.screen

    def wait_for_prompt(self, text: str) -> None:
        """Wait until the screen ends with the prompt `text`, because keys that are pressed earlier can be lost."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not self.screen.rstrip().endswith(text) and time.monotonic() < deadline:
            self._read()

    def wait_for_input(self, text: str) -> None:
        """Wait until the screen contains `text` and the program sleeps until the next key.

        Python loses an interrupt that comes after readline has printed its prompt and before it waits for a key.
        """
        self.wait_for(text)
        status_file = Path(f"/proc/{self._process}/stat")
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while status_file.exists() and time.monotonic() < deadline:
            state = status_file.read_text(encoding="ascii").rpartition(")")[2].split()[0]
            if state == "S":
                break
            self._read()

    def wait_for_exit(self) -> int:
        """Wait until the program ends; return its exit code."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self._is_open and time.monotonic() < deadline:
            self._read()
        os.close(self._fd)
        return os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])

    def _read(self) -> None:
        if not select.select([self._fd], [], [], 0.1)[0]:
            return
        try:
            data = os.read(self._fd, 65_536)
        except OSError:  # Linux reports the closed other end as an error
            data = b""
        self._is_open = bool(data)
        self._stream.feed(data)
