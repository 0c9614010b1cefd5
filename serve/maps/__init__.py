"""Maps for people and for agents: the `mindmap` command, and the MCP server that it starts.

- `cli`: the `mindmap` command: parse, call, print
- `server`: the MCP server of mindmaps: tools, resources, a prompt
- `tools`: the tools through which agents keep maps
- `views`: maps and edits as the tools answer them
- `forms`: what the tools take and give, field by field
- `page`: maps for people: a list, and a tree with its progress
"""
