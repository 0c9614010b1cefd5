"""Daemon, a background process that keeps models and indexes loaded, and its client.

- `cli`: commands `lineage serve` and `lineage daemon`
- `client`: client that starts or replaces the daemon
- `mcp_sessions`: MCP sessions in the daemon
- `process`: files and build id of the daemon, headers of its HTTP interface, start and end of its process
- `protocol`: messages between client and daemon, as JSON
- `server`: HTTP server on a Unix socket, call counters, idle timeout
- `session_client`: client of the MCP sessions, with the standard library only
"""
