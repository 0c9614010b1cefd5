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
- `activity`: what an edit leaves in the log, and what is told of it
- `progress`: what counts as a task, totals, the active task
- `paths`: one file, one path
- `limits`: how much a map takes
- `moments`: moments as text
"""
