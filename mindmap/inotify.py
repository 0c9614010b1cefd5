"""Linux's own way to be told of file events, spared what nobody wants to know; imported on Linux only.

A watch is needed for each folder, and a system has a limited number of them for everybody: a `node_modules` would
take tens of thousands. watchdog watches whatever is below a folder and says nothing where watches run out.
"""

from __future__ import annotations

import errno
import warnings
from collections.abc import Callable

from watchdog.observers.api import BaseObserver
from watchdog.observers.inotify import InotifyEmitter, InotifyWatchGroup
from watchdog.observers.inotify_c import CallbackId, InotifyFD, Mask, WatchCallback, WatchDescriptor

from mindmap.ignoring import NAMES
from mindmap.paths import shown


class SparingInotify(InotifyFD):
    """Declines folders that are ignored, and calls `exhausted` each time the system declines one."""

    def __init__(self, exhausted: Callable[[], None]) -> None:
        super().__init__()
        self._exhausted = exhausted
        # A folder that is made while its parent's content is looked through is found twice, and warned of.
        warnings.filterwarnings("ignore", "Callback with id", RuntimeWarning)

    def add_callback(
        self, path: bytes, mask: Mask, callback: WatchCallback, id_: CallbackId
    ) -> WatchDescriptor:
        """As its base does; a folder below the watched one that cannot be watched is passed over there."""
        if isinstance(callback, InotifyWatchGroup) and _is_ignored(path, callback.path):
            raise FileNotFoundError(errno.ENOENT, "ignored", path)
        try:
            return super().add_callback(path, mask, callback, id_)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                self._exhausted()
            raise


class SparingObserver(BaseObserver):
    """watchdog's observer, with one such descriptor for all that it watches."""

    def __init__(self, exhausted: Callable[[], None]) -> None:
        self._descriptor = SparingInotify(exhausted)
        self._descriptor.start()
        super().__init__(InotifyEmitter, inotify_fd=self._descriptor)

    def on_thread_stop(self) -> None:
        """Let go of the descriptor too."""
        super().on_thread_stop()
        self._descriptor.stop()


def _is_ignored(path: bytes, root: bytes) -> bool:
    return not NAMES.isdisjoint(shown(path[len(root) :]).split("/"))
