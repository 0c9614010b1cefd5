"""Daemon, a background process that keeps models and indexes loaded, and its client.

- `cli`: commands `lineage serve` and `lineage daemon`
- `client`: client that starts or replaces the daemon
- `mcp_sessions`: MCP sessions in the daemon
- `process`: files and build id of the daemon, its start and end, requests to it; standard library only
- `protocol`: messages between client and daemon, as JSON
- `server`: HTTP server on a Unix socket, call counters, idle timeout
"""
