"""Web server of the mindmap page.

- `discovery`: Address file of the running viewer
- `documents`: Cache of maps as JSON, validated by file signatures
- `handlers`: Base request handler (headers, errors, body limit) and Server-Sent Events
- `responses`: Host and origin checks (DNS rebinding), gzip, error responses, files of the page
- `routes`: Routes and endpoint handlers
- `server`: Port selection, start and shutdown of the Tornado server
- `state`: Objects shared by the handlers: change log, thread pools, lineage lookup
- `watcher`: Watcher of the data directory, with a debouncer
"""
