"""MCP over stdio: what both servers share, and the server of both questions.

- `door`: strict arguments, errors that a model can act on, an end when the client leaves
- `lines`: lines from a client that are no messages, answered
- `lineage`: the `lineage-mcp` command: both questions as MCP tools
"""
