"""Index pipeline: from the commits of a repository to the rows of its index.

Stages, in order:

- `run`: an index run from start to end; calls every stage below
- `walk`: commits to index after the watermark, parents first, in batches; commits reachable from HEAD
- `hunks`: one hunk record per changed file of a commit: renames, merges, binary and oversized files
- `parse`: symbols and chunks of a file; symbols touched by a hunk
- `text`: semantic text of a hunk, and the code-aware words of a text
- `extract`: worker task: all rows of a batch of commits but the vectors
- `embed`: vectors of texts, each distinct text once; lookup in the embedding cache
- `write`: one transaction per batch, with the watermark; start and end of a run
- `head_symbols`: symbols of the HEAD tree; parses only files that changed

Used by the stages:

- `git`: access to git repositories: objects, diffs, merges, and the git program
- `syntax`: source code parsing with tree-sitter: symbols and chunks
- `encoders`: embedding models and the cross-encoder, and how they run
- `ignore`: ignore rules: built-in defaults, git attributes, `.lineageignore`
- `ignore_suggestions`: ignore patterns suggested by `lineage plan`
- `directory_stats`: changes per directory, from `git log`
- `file_roles`: role of a path (program, test, documentation, build) and kind of a file (source, data, generated)
- `options`: options of an index: encoder, precision, embedding cache mode
- `component_versions`: version numbers of the components that produce rows
- `workers`: ordered, bounded parallel map over worker processes
- `malloc`: limits on the freed memory that glibc keeps
- `signals`: termination signals deferred during critical sections
- `profile`: phase timings of a run
- `training`: training code of the bundled models; nothing that runs imports it
"""
