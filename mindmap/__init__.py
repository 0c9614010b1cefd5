"""Mindmaps of coding agents: documents, operations, git sync and file watcher.

- `auto_attach`: Attaches batches of file events to the chosen node
- `document`: Document types, JSON encoding, timestamps and activity log
- `export`: Outline, Markdown, Mermaid and JSON forms of a map
- `file_events`: Coalesces file events; state of a watched workspace
- `file_touches`: Attaches files to nodes, merges touches, chooses the target node
- `git`: Git runner protocol, workspaces in repositories, parsers of git's output
- `git_sync`: Attaches the files that differ from HEAD
- `ignore`: Ignore rules: fixed names, map files, git's rules
- `links`: Adds and removes links
- `map_store`: Creates, reads, changes, lists, deletes and repairs maps
- `nodes`: Adds, updates, moves and removes nodes; validates nested input
- `observer`: watchdog observers of one workspace
- `paths`: Normalizes paths of files and workspaces
- `tree`: Tree traversal, task progress, map summaries, word search
- `validation`: Limits of texts and batches; line ranges (`10-20`)
- `watcher`: Watches workspaces and records batches of events
"""
