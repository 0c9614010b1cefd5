"""Benchmarks of time, memory, size and crash recovery on real repositories.

    python -m tests.bench CLONE...              all benchmarks, one table
    python -m tests.bench.indexing CLONE...     one benchmark

Each CLONE is the path of a local clone, bare or not; it is only read. `--runs` is the number of rounds whose median
is reported (5), `--commits` the maximum number of commits (5,000; HEAD is reset to an older one), `--pairs` the
number of line ranges to explain (200). A ratio compares two times of one round, so it is comparable between machines;
seconds are not. Use an idle machine. Memory is summed over all processes of a run.

- `indexing`: time to the first answer and to the last vector, peak memory, size by table, symbols by language
- `memory_growth`: peak memory at 1,000 and at 5,000 commits, also for a uniform history
- `everyday`: an index run without new commits, one new commit (also with 5,000 files at HEAD), one query
- `kill_recovery`: `kill -9` at twenty random times of both stages; comparison with an undisturbed index
- `explain`: random ranges against `git blame` and `git show`, in a clean and a modified work tree
- `exact_search`: `lineage grep` against `git log -S` and `git log -G`
- `log_and_trace`: `lineage log`, `grep --range`, `trace` and `show` against `git log` and `git show`
- `warm`: queries with models and index loaded; text lane, encoder and reranking alone
- `agents`: memory of the MCP server, ten clients at once, eight clients while commits arrive
- `tokens`: definitions of the MCP tools and their answers, in tokens; needs `pip install bpe-openai`
- `hooks`: `git commit` with and without the hooks of `lineage init`
- `concurrent_queries`: two queries a second during an index run
- `cluster`: embedding on a Dask cluster: texts per second by workers, processor time of the coordinator
- `large_index`: an index of 100,000 or 1,000,000 hunks: scan of all vectors, HNSW; options of its own
- `quantization`: ranking by the codes of an index, compared with vectors as floats; options of its own
- `many_repositories`: questions to twenty indexes at once, compared with one; 1,000 commits each suffice
- `mindmaps`: killed writers, a write on a large map, git sync of many files; takes no clone
- `viewer`: two hundred browsers while maps are written, memory of the viewer; takes no clone
- `page`: first card, frame rate on a large map, latency of a write; needs Chromium, takes no clone

Shared modules:

- `report`: rows, table and arguments
- `programs`: programs run as separate processes
- `memory`: memory of a process and its descendants
- `histories`: clones cut to a length, and synthetic histories
- `references`: `git log -p` and ONNX Runtime alone
- `indexes`: content and size of an index
- `synthetic_index`: a real index enlarged with synthetic hunks
- `vector_search_process`: vector search of one index by one method
"""

from serve import config

# The programs configure libraries the same way. It has an effect only before numpy is imported.
config.configure_libraries()
