"""Web server of the mindmap page.

- `cli`: `mindmap viewer` command
- `discovery`: Address file of the running viewer
- `documents`: Cache of encoded maps; file change signature (stat)
- `handlers`: Base request handler: headers, errors, body limit; server-Sent Events endpoint
- `responses`: Response body, ETag, gzip; host and Origin check (DNS rebinding); static page files;
  exception to HTTP status and JSON error
- `routes`: Routes and endpoint handlers
- `server`: Chooses a free port; starts and stops the Tornado server
- `state`: Change sequence numbers for SSE clients; objects shared by handlers; bounded thread
  pools; explain_change for a file of a map
- `watcher`: Debounces change events; watches the data directory
"""
