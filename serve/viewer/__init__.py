"""Web server of the mindmap page.

- `discovery`: address file of the running viewer
- `handlers`: base classes of request handlers (headers, errors, body limit) and Server-Sent Events
- `responses`: host and origin checks (DNS rebinding), gzip, error responses, files of the page
- `server`: routes with their handlers; port selection, start and shutdown of the Tornado server
- `state`: objects shared by the handlers: change log, thread pools, cache of maps, lineage lookup
- `watcher`: watcher of the data directory, with file signatures and a debouncer
"""
