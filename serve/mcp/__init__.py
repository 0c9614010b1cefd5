"""MCP servers of lineage and mindmap.

- `base`: MCP server base: strict arguments, error mapping, shutdown; answers malformed JSON-RPC
  lines
- `lineage_server`: `lineage-mcp` server
- `mindmap_server`: Mindmap MCP server: resources, prompt
- `mindmap_tools`: Mindmap MCP tools
- `mindmap_types`: Input/output types of the mindmap tools; tool responses built from documents
"""
