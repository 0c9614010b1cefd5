"""Background process that keeps models and indexes loaded, and its client.

- `cli`: `lineage serve`/`lineage daemon` commands
- `client`: HTTP client over the unix socket; starts or replaces the daemon
- `process`: Socket path and build id of the daemon; starts and stops exactly one daemon process
- `protocol`: JSON request/response encoding
- `server`: Request counters and idle timeout; tornado server on a unix socket
"""
