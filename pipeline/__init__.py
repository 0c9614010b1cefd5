"""Index pipeline: from the commits of a repository to the rows of its index.

A hunk is the diff of one file in one commit. A chunk is a sequence of consecutive syntax nodes of a file. The watermark
is a commit whose whole history the index has.

Stages, in order:

- `run`: main line of an index run: extracts and writes all commits, then embeds their texts; calls the other stages
- `walk`: commits to index, parents first; changes of the set that HEAD reaches; order of commits, newest first
- `hunks`: one hunk per changed file of a commit, also for renames, merges, binary and oversized files
- `text`: texts of a hunk for the encoder and the full-text index, and terms of a text
- `extract`: worker task: all rows of a batch of commits except the vectors
- `embed`: vectors for texts without a vector, newest commits first; embedding cache; encoding on a Dask cluster
- `write`: writes at the start and the end of a run; one transaction per batch, which also moves the watermark
- `head_symbols`: symbols and chunks of the files at HEAD; parses only files that changed
- `history_refresh`: replacement of outdated symbols and terms of the history, with `--force`

Used by the stages:

- `git`: access to git repositories: objects, diffs, merges, and the git program
- `syntax`: parsing of source code with tree-sitter: symbols and chunks of a file, symbols that a hunk touches
- `encoders`: embedding models and the cross-encoder, and their runtime
- `ignore`: ignore rules: built-in defaults, git attributes, `.lineageignore`
- `ignore_suggestions`: ignore patterns that `lineage plan` suggests
- `directory_stats`: number of changes and files per directory, over a history
- `file_classification`: language, kind (code, prose, data) and role (source, tests, prose) of a file; detection of
  generated files
- `options`: options of an index and of index runs: encoder, precision, embedding cache mode, hardware
- `component_versions`: versions of the components that write rows
- `workers`: parallel calls of a function through joblib, with results in order; settings of malloc
- `interrupts`: cancellation of requests, deadlines, and deferral of termination signals
- `profile`: timings of the phases of a run
- `training`: training code of the bundled models; no other package imports it
"""
