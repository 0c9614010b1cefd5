"""Databases and files: the DuckDB index and the mindmap files.

- `compatibility`: Component versions in the index and the compatibility verdict
- `connections`: Long-lived writer connection that yields to waiting readers; background thread that
  closes idle connections; long-lived reader connection that yields to a waiting writer
- `database`: Opens an index for reading or writing; attach, migrate, detect damage
- `duckdb_engine`: Pool of in-memory DuckDB instances; memory and thread limits; locates DuckDB
  extension files installed as wheels; umask 077 while files are created
- `embedding_cache`: Embedding cache database beside the index; deletes cache entries of unused
  models
- `errors`: Base exception with message and hint; maps OSError/DuckDB I/O errors (disk full,
  permission) to user errors
- `filters`: Query filters (path glob, date, author, language) as a row mask
- `frames`: Index tables as polars frames (notebooks)
- `fulltext`: BM25 search over posting tables
- `history`: Read queries: recorded commits, status, file history, unreadable commits; row threshold
  above which vectors are kept on disk
- `hunk_details`: Loads commit, diff and symbols of hunks for display
- `index_location`: Index directory of a repository; repository id
- `locks`: Lists processes that hold a lock file (/proc/locks); fair reader/writer lock over two
  `flock` files, with timeouts; single-instance lock for index runs; at most one queued run per work
  tree
- `maintenance`: Rewrites (VACUUM-like copy) a fragmented index file atomically; integrity check:
  reads all blocks, checks table invariants; finds and deletes leftover files under the data
  directory
- `migrations`: Schema migration runner; migration 2: component versions per row
- `mindmap_files`: Mindmap JSON files: locking, atomic replace, quarantine; mindmap ids and file
  names
- `quantized_search`: Exact top-k over quantized vectors with pruning bounds
- `quantized_vectors`: Side file of 8-bit quantized vectors: open, refresh, staleness; binary layout
  and writer of the quantized-vector side file
- `schema`: Arrow schemas of all tables, and migrations notes
- `snapshot`: Top-k selection with deterministic ties; hunks reachable from HEAD as NumPy arrays
- `types`: Set difference that describes which commits HEAD reaches; schema version and embedding
  dimension (import-light)
- `vector_search`: Commit messages and their vectors; exact cosine search over hunk vectors
- `whitening`: Whitening transform (mean, principal axes) of embeddings
- `writer`: Term dictionary and posting rows; write transactions: batch, HEAD symbols, start/end of
  run, delete
"""
