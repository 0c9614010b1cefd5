"""Web server of the mindmap page.

- `discovery`: Address file of the running viewer
- `handlers`: Base request handlers (headers, errors, body limit) and Server-Sent Events
- `responses`: Host and origin checks (DNS rebinding), gzip, error responses, files of the page
- `server`: Routes with their handlers; port selection, start and shutdown of the Tornado server
- `state`: Objects shared by the handlers: change log, thread pools, cache of maps, lineage lookup
- `watcher`: Watcher of the data directory, with file signatures and a debouncer
"""
