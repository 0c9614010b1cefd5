"""The agent's map of plan, mental model and touched files: what it is, and how it changes; no HTTP, no MCP.

- `maps`: the maps of a data directory: made, read, changed, listed, deleted
- `document`: a map, its nodes, links, files and log: types, and their JSON
- `mending`: maps that others left at odds with themselves, put right
- `tree`: the tree of a map, walked without recursion
- `edits`: changes of the tree, each a function document -> document
- `planting`: nested nodes as an agent writes them -> a flat batch
- `linking`: changes of the links
- `touching`: files attached to nodes, merged by path
- `target`: which node a file attaches to
- `outline`: a map as an outline, a line for each node
- `searching`: finding maps and nodes by their words
- `export`: a map as Markdown, Mermaid or JSON
- `gitsync`: git's status and numstat -> touches
- `porcelain`: the bytes of both -> what happened to files
- `watcher`: watches workspaces and attaches what changes, batch by batch
- `inotify`: Linux's own way to be told, spared what is ignored
- `events`: what happened to files since they were looked at last
- `autodetect`: a batch of events -> touches on a map
- `ignoring`: which files are nobody's work
- `program`: what is needed of the git program
- `activity`: what an edit leaves in the log, and what is told of it
- `progress`: what counts as a task, totals, the active task
- `paths`: one file, one path
- `limits`: how much a map takes
- `moments`: moments as text
"""
