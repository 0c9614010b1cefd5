"""Limits on the freed memory that glibc's malloc retains. They have no effect with other C libraries."""

from __future__ import annotations

import ctypes
from typing import Final

# Parameters of `mallopt`, from malloc.h.
_TRIM_THRESHOLD: Final = -1
_ARENA_MAX: Final = -8

# If more memory than this is free at the end of the heap, glibc returns it to the system. This is glibc's default, but
# glibc raises it and the threshold for `mmap` at run time, unless it is set explicitly.
TRIM_THRESHOLD_BYTES: Final = 128 << 10
# By default glibc creates an arena per thread, up to eight per processor. Threads cannot reuse memory of other arenas.
MAX_ARENAS: Final = 1


def configure_malloc() -> None:
    """Make malloc return freed memory to the system. Call before starting threads: their arenas would remain.

    While indexing 5,000 commits in batches, malloc retained 5 MB of freed memory instead of up to 23 MB.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, MAX_ARENAS)
        mallopt(_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)
