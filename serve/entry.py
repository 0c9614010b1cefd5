"""Where the program starts: a run that a hook started leaves here when it is not needed, before anything is loaded.

Commits may follow each other faster than a run reads its command line: 0.3 s of a processor, against 0.05 s for
this. Everything else, and every doubt, goes on to the command.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from serve import ending, streams
from serve.awaited import LEAVES, another_waits

# As our hooks write it.
HOOKS_WORDS: Final = ["index", "--incremental", "--embed-provider", "cpu"]


def main() -> int:
    """Run the program."""
    ending.at_once()
    streams.ready()
    if sys.argv[1:] == HOOKS_WORDS and another_waits(Path()):
        print(LEAVES)  # noqa: T201 - why it did nothing
        return 0
    from serve.cli import main as command

    return command()


if __name__ == "__main__":
    sys.exit(main())
