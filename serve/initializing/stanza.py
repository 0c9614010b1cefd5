"""What we tell agents, written for the model that reads it: when to ask, what to ask, what to make of the answer."""

from __future__ import annotations

from typing import Final

from serve.initializing.fences import Fences

FENCES: Final = Fences(b"<!-- lineage:start -->", b"<!-- lineage:end -->", breaks=2)

STANZA: Final = b"""\
<!-- lineage:start -->
## History of this repository: lineage

A local index of this repository's commits answers two questions that the code at HEAD cannot. Ask before you
decide, not after.

- **How was this done before?** Tool `find_pattern`, or `lineage query --query "retry a request with backoff"`.
  Ask before you write something that may have been done here already: a feature like an earlier one, a fix like an
  earlier fix, an entry in the same configuration. Describe the change in plain words; a `symbol` in backquotes,
  "in src/net/", "in Rust" or "last 3 months" narrow it. The hits are ranked guesses: read a hit's diff before you
  follow it.
- **Why does this look the way it does?** Tool `explain_change`, or `lineage explain src/net/client.py --lines 40:60`.
  Ask before you change or delete code whose reason you do not see. The hits are exact: the commits that wrote
  these lines, newest first, with their messages.

Neither finds where something is defined or used now: search the files for that. Without the tools, the commands
print the same answers as JSON. The index follows every commit in the background; when an answer says that it is
behind HEAD and that matters, run `lineage index --incremental`.
<!-- lineage:end -->"""
