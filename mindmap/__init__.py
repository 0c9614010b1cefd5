"""Mindmaps: documents, git sync and file watcher.

- `auto_attach`: Attaches file-system events to the active node
- `document`: Edit result and activity log entries; document types and JSON (de)serialization; uTC
  timestamps in ISO 8601
- `export`: Export to Markdown, Mermaid, JSON; text outline of a map
- `file_events`: Coalesces file-system events; state of one watched workspace
- `file_touches`: Chooses the node a file is attached to; merges file touches on a node
- `git`: Parses `git status --porcelain -z` and `git diff --numstat -z`; git interface (protocol)
  that mindmap needs; injected by serve
- `git_sync`: git status and numstat to file touches; runs git sync for one map
- `ignore`: Ignore rules for watched files
- `inotify_observer`: watchdog inotify observer that skips ignored directories (Linux)
- `links`: Link operations
- `map_store`: Creates, reads, updates, lists, deletes maps; repairs inconsistent documents
- `nodes`: Node operations: add, update, move, remove, note; validates and flattens nested node
  input
- `observer`: Chooses the watchdog observer of the platform
- `paths`: Normalizes workspace-relative paths
- `tree`: Task progress and map summary; finds nodes by words; iterative tree traversal
- `validation`: Size limits of a map; parses line ranges (`10-20`)
- `watcher`: watchdog event handler that queues events; logs a message only once; watches workspaces
  and applies batches of events
"""
