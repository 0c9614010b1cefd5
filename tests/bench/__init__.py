"""Speed, measured: what the project promises about time, memory, size and survival, on real histories.

    python -m tests.bench CLONE...              every measure below, one table
    python -m tests.bench.indexing CLONE...     one of them

Each CLONE is the path of a local clone, bare or not; it is only read. Nothing is fetched. `--runs` is the number
of rounds whose median is printed (5), `--commits` the longest history (5,000: HEAD is set back to it), `--pairs`
the number of ranges that are explained in each work tree (200). Ratios
are taken within one round against the reference the row names, so they travel between machines; seconds do not,
and neither means anything while the machine has other work. Memory is summed over all processes of a run.

- `indexing`: wall time of a whole index and of all but its embedding, peak memory, size and what takes the room,
  shares of hunks with exact symbols by language
- `memory_growth`: peak memory at 1,000 and at 5,000 commits, also where files stay as large
- `everyday`: nothing to do, one new commit (also with 5,000 files at HEAD), one query
- `kill_recovery`: `kill -9` at a quarter, half, three quarters; then the index compared with a clean one
- `explain`: random ranges against `git blame` and `git show`, in a clean and a dirty work tree; time, first and
  repeated
- `warm`: questions asked of a running engine and of the daemon; text lane, encoder and reranking alone
- `agents`: the MCP server's memory, ten clients at once, eight asking while the history grows
- `hooks`: `git commit` with and without the hooks of `lineage init`, and a run that another's waiting sends away
- `concurrent_queries`: two queries a second while an index runs, as processes of their own and through the daemon
- `large_index`: an index grown to a hundred thousand hunks or to a million, out of memory, beside a matrix in memory
  and VSS HNSW; takes one clone, and options of its own
- `mindmaps`: writers that are killed, a write on a large map, git sync on many files; takes no clone
- `viewer`: two hundred browsers listening while maps are written, and the viewer's memory; takes no clone
- `page`: the first card, frames while a large map is panned and zoomed, a write to the screen; needs chromium, takes
  no clone

What they stand on:

- `report`: a row, the table, the arguments
- `programs`: programs as whole processes
- `memory`: memory of a process and everything it started
- `histories`: clones cut to a length, a made history with many files, and one whose files stay as large
- `references`: `git log -p` and the bare ONNX Runtime
- `indexes`: an index looked at from outside
- `synthetic_index`: a large index made of a real one
- `vector_search_process`: the vector lane of one index, asked in one way
- `hnsw`: VSS's HNSW over the same places
- `index_without_embedding`: `lineage index` with an encoder that answers zeros
"""

from serve import config

# As at the product's door, and as there it acts only while numpy is not imported.
config.calm_libraries()
