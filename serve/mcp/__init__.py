"""MCP servers of lineage and mindmap.

- `answer_lists`: answers to calls about several items
- `answer_text`: text of answers for models and their structured content
- `lineage_server`: server of lineage and its tools
- `mindmap_server`: MCP server of mindmap, its resources and prompt
- `mindmap_tools`: tools for mindmaps
- `mindmap_types`: input and output types of these tools, and construction of answers from documents
- `relay`: commands `lineage-mcp` and `mindmap mcp`, which connect a client to a session of the daemon
- `stdio`: transport of both servers, invalid lines and shutdown
- `tools`: tools of both servers (strict arguments, short schemas, error texts); queue, progress and repository of calls
- `user_messages`: answers and comments of the user for agents
"""
