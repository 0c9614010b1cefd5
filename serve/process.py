"""Signals, standard streams, log and memory of a program.

- Signals: SIGTERM and SIGHUP raise KeyboardInterrupt, so that a command shuts down cleanly as on Ctrl-C.
- Streams: `configure_streams` makes stdin, stdout and stderr UTF-8, and replaces closed streams by /dev/null. A failed
  write to stdout raises `OutputWriteError`.
- Log: `configure_log` writes one logfmt line (`level=info event=...`) for each event to stderr.
- Memory: the size of this process, and imports without garbage collection.
"""

from __future__ import annotations

import gc
import io
import logging
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn, TextIO

from pipeline.interrupts import TERMINATION_SIGNALS, is_main_thread
from serve.text import add_path_to_commands, escape_controls
from stores.errors import LineageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# Delay before a signal that arrived during an import is raised again.
RETRY_SECONDS: Final = 0.02
# Maximum number of these delays per `ReceivedSignal`, 5 s in all. After them, a signal ends even an import that hangs.
MAX_RETRIES: Final = 250
# Longest time that `lineage sql` goes on after a signal.
MAX_SIGNAL_WAIT_SECONDS: Final = 1.0
# File name in the stack frames of Python's import system.
IMPORT_SYSTEM_FILE: Final = "<frozen importlib._bootstrap>"
# Encoding error handler. It writes undecodable bytes of paths as escapes.
ENCODING_ERRORS: Final = "backslashreplace"
# Python's level for each level of `config.LOG_LEVELS`. Python has no level below debug.
_PYTHON_LOG_LEVELS: Final = {
    "off": logging.CRITICAL + 1,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": logging.DEBUG,
}


@dataclass(slots=True)
class ReceivedSignal:
    """Last termination signal (`number`); SIGINT if none arrived.

    `retries`: how many times a signal was postponed.
    """

    number: int = signal.SIGINT
    retries: int = 0


class OutputWriteError(LineageError):
    """Error for output that could not be written to stdout."""


def compute_signal_exit_code(number: int) -> int:
    """Return the exit code that a shell reports for a program ended by this signal."""
    return 128 + number


@contextmanager
def handle_termination_signals() -> Iterator[ReceivedSignal]:
    """Raise KeyboardInterrupt in the body on SIGINT, SIGTERM and SIGHUP.

    Yields an object with the last received signal. Signals that are ignored (as SIGHUP under nohup) or have another
    handler are left alone. Outside the main thread, no signal is handled. An import postpones the exception, because
    C extensions would lose it or crash.
    """
    received_signal = ReceivedSignal()

    def send_later() -> None:
        received_signal.retries += 1
        # Send the signal again instead of raising here, because its handler may have been replaced by
        # `pipeline.interrupts.defer_signals`.
        alarm_handler = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(received_signal.number))
        replaced_handlers.setdefault(signal.SIGALRM, alarm_handler)
        signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS)

    def interrupt(number: int, frame: FrameType | None) -> None:
        received_signal.number = number
        if received_signal.retries < MAX_RETRIES and _is_importing(frame):
            send_later()
            return
        _hide_tracebacks(send_later)
        raise KeyboardInterrupt

    previous_handlers = {number: signal.getsignal(number) for number in TERMINATION_SIGNALS}
    default_handlers = {signal.SIG_DFL, signal.default_int_handler}
    replaced_handlers = {
        number: handler
        for number, handler in previous_handlers.items()
        if is_main_thread() and handler in default_handlers
    }
    for number in replaced_handlers:
        signal.signal(number, interrupt)
    try:
        yield received_signal
    finally:
        if received_signal.retries:
            signal.setitimer(signal.ITIMER_REAL, 0)  # without its handler, the alarm would end the process
        for number, handler in replaced_handlers.items():
            signal.signal(number, handler)


@contextmanager
def exit_if_signals_wait() -> Iterator[list[Path]]:
    """End the process if the body has not ended MAX_SIGNAL_WAIT_SECONDS after a termination signal.

    Yields a list to which the body adds the directories of its temporary files, which are deleted before that end.
    Python handles no signal during a native function, and DuckDB can compute a single value for minutes. Use this on
    the main thread.
    """
    import shutil  # slow to import, and programs that relay MCP sessions import this module

    directories: list[Path] = []
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    has_ended = threading.Event()

    def wait() -> None:
        while number := os.read(reader, 1):
            if number[0] in TERMINATION_SIGNALS and not has_ended.wait(MAX_SIGNAL_WAIT_SECONDS):
                for directory in directories:
                    shutil.rmtree(directory, ignore_errors=True)
                os._exit(compute_signal_exit_code(number[0]))
        os.close(reader)

    threading.Thread(target=wait, name="signals", daemon=True).start()
    previous = signal.set_wakeup_fd(writer)
    try:
        yield directories
    finally:
        has_ended.set()
        signal.set_wakeup_fd(previous)
        os.close(writer)


def exit_on_termination_signals(exit_process: Callable[[int], NoReturn]) -> None:
    """On SIGINT, SIGTERM and SIGHUP, call `exit_process` with the exit code of the signal. Skip ignored signals.

    The signal handler itself exits, because an exception would wait for a thread that reads stdin.
    """
    for signal_number in TERMINATION_SIGNALS:
        if signal.getsignal(signal_number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(signal_number, lambda number, _: exit_process(compute_signal_exit_code(number)))


def _hide_tracebacks(send_later: Callable[[], None]) -> None:
    """Suppress the tracebacks of finalizers and other threads in the rest of this process, which is about to end.

    joblib's threads fail, or log an exception, when they find their workers shut down. `send_later`: sends the signal
    again after `RETRY_SECONDS`; called if a finalizer has lost the KeyboardInterrupt.
    """

    def retry_lost_interrupt(failure: sys.UnraisableHookArgs) -> None:
        if failure.exc_type is KeyboardInterrupt:  # an exception cannot leave a finalizer
            send_later()

    sys.unraisablehook, threading.excepthook = retry_lost_interrupt, lambda _: None
    logging.getLogger("concurrent.futures").disabled = True


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Disable garbage collection in the body. After it, exclude all existing objects from collection (`gc.freeze`).

    Use it for large imports: collection takes a tenth of their time, and finds nothing to delete.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def measure_resident_bytes() -> int | None:
    """Return the resident memory of this process, or None if the system does not provide it."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def configure_streams() -> None:
    """Make stdin, stdout and stderr UTF-8, and open /dev/null for closed streams.

    A stream that other code, such as a test, has replaced stays unchanged.
    """
    # Closed streams are opened in the order of their descriptors 0, 1 and 2, because each gets the lowest free one. A
    # descriptor that stays free could become that of a database file.
    if sys.stdin is None:
        sys.stdin = open(_open_devnull(), encoding="utf-8", errors=ENCODING_ERRORS)  # noqa: SIM115 - open until exit
    elif sys.stdin is sys.__stdin__ and isinstance(sys.stdin, io.TextIOWrapper):
        # As in arguments, bytes that are not UTF-8 become surrogates. The code that uses the text rejects them.
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
    if sys.stdout is None or sys.stdout is sys.__stdout__:
        sys.stdout = _wrap_stdout(sys.stdout)
    if sys.stderr is None:
        sys.stderr = open(_open_devnull(), "w", encoding="utf-8", errors=ENCODING_ERRORS)  # noqa: SIM115
    elif sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(encoding="utf-8", errors=ENCODING_ERRORS)


def detach_streams() -> None:
    """Redirect stdout and stderr to /dev/null if they cannot be flushed, so that the flush at exit does not fail."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, OutputWriteError):
            os.dup2(_open_devnull(), stream.fileno())


@contextmanager
def exit_on_output_error() -> Iterator[None]:
    """Flush stdout after the body. If a write to it fails, print the error and exit with code 1."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OutputWriteError as error:
        detach_streams()
        sys.exit(f"error: {error}")


def build_output_write_error(error: OSError) -> OutputWriteError:
    """Return the error that reports a failed write to stdout."""
    return OutputWriteError(f"Could not write the output: {error.strerror or error}")


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether the frame or one of its callers runs Python's import system."""
    while frame and frame.f_code.co_filename != IMPORT_SYSTEM_FILE:
        frame = frame.f_back
    return frame is not None


class _StdoutFile(io.FileIO):
    """Raw stdout. A write error raises `OutputWriteError`, except a closed pipe, which raises BrokenPipeError."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write all of `data`; retry partial and blocked writes, because callers ignore the returned count."""
        remaining = memoryview(data).cast("B")
        try:
            while remaining:
                written = super().write(remaining)
                if written is None:
                    select.select([], [self], [])
                remaining = remaining[written or 0 :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise build_output_write_error(error) from error
        return memoryview(data).nbytes


def _wrap_stdout(stream: TextIO | None) -> TextIO:
    """Return a UTF-8 stream that writes to the file of `stream`, or to /dev/null if `stream` is None."""
    raw = _StdoutFile(_open_devnull() if stream is None else stream.fileno(), "w", closefd=False)
    is_unbuffered = isinstance(stream, io.TextIOWrapper) and stream.write_through
    return io.TextIOWrapper(
        raw if is_unbuffered else io.BufferedWriter(raw),
        encoding="utf-8",
        errors=ENCODING_ERRORS,
        line_buffering=raw.isatty(),
        write_through=is_unbuffered,
    )


def _open_devnull() -> int:
    """Return a new file descriptor of /dev/null."""
    descriptor = os.open(os.devnull, os.O_RDWR)
    os.set_inheritable(descriptor, True)  # standard streams are inherited by child processes
    return descriptor


class _StderrHandler(logging.Handler):
    """Handler that looks up `sys.stderr` at every event, because a progress bar replaces it."""

    def emit(self, record: logging.LogRecord) -> None:
        # A full disk or a closed reader must not end the operation that logs.
        with suppress(OSError, ValueError):
            print(self.format(record), file=sys.stderr, flush=True)  # noqa: T201 - this is the log


def configure_log(level: str) -> None:
    """Send events of `level` (one of `config.LOG_LEVELS`) and above to stderr."""
    handler = _StderrHandler()
    handler.setFormatter(_LogfmtFormatter())
    logging.basicConfig(level=_PYTHON_LOG_LEVELS[level], handlers=[handler], force=True)


class _LogfmtFormatter(logging.Formatter):
    """Formatter of logfmt lines. A message that does not begin with `event=` becomes `message="..."`."""

    def format(self, record: logging.LogRecord) -> str:
        message = escape_controls(add_path_to_commands(record.getMessage()))
        if not message.startswith("event="):
            message = _quote_message(message)
        return f"level={record.levelname.lower()} {message}"


def _quote_message(message: str) -> str:
    return 'message="' + message.replace('"', "'") + '"'
