"""Mindmaps of coding agents: documents, operations, git sync and file watcher.

A mindmap (short: map) is a tree of nodes with links between them. A file touch attaches a file to a node. A workspace
is the directory of a project whose changed files attach to a map.

- `document`: Document types, JSON encoding, timestamps and activity log
- `export`: Outline, Markdown, Mermaid and JSON formats of a map
- `file_events`: Net changes from batches of file events, and their attachment to a map; state of a watched workspace
- `file_touches`: Attaches files to nodes, merges touches, chooses the target node
- `git`: Git runner protocol, workspaces in repositories, parsers of git's output, ignore rules
- `git_sync`: Attaches the files that differ from HEAD
- `links`: Adds and removes links
- `map_store`: Creates, reads, changes, lists, deletes and repairs maps
- `nodes`: Adds, updates, moves and removes nodes; validates nested input
- `observer`: File-system observer of one workspace
- `questions`: Questions of agents to the user, answers, and comments of the user
- `tree`: Tree traversal, task progress, map summaries, word search
- `validation`: Limits of texts and batches; line ranges (`10-20`); paths of files and workspaces
- `watcher`: Watches workspaces and records batches of events
"""
