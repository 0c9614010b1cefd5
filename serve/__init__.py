"""User interfaces: commands, MCP servers, daemon, viewer, search and explanation.

- `analysis`: Data frames and charts of a history, for notebooks
- `api_types`: Response types of find_pattern/explain_change and their JSON document; validates file
  and line range; request types of find_pattern/explain_change
- `backend`: Chooses the daemon or in-process engine for a request
- `cli`: Commands of the `lineage` and `mindmap` programs
- `config`: Package name and version; environment variables
- `daemon`: Background process that keeps models and indexes loaded, and its client
- `diff_excerpts`: Selects and formats excerpt windows of a diff
- `engine`: In-process query engine (models, open indexes)
- `errors`: User-facing request errors
- `explain`: Explanation of lines by the commits that wrote them: `explain_change`
- `http_common`: Shared Tornado helpers: shutdown signals, access log
- `index_status`: Shared response fields: commit counts, index hints, excerpt limits; index status
  relative to HEAD
- `logs`: Log configuration (logfmt on stderr)
- `maintenance`: `lineage doctor` and `lineage gc`: checks of an installation, and removal of data
  that nothing needs
- `mcp`: MCP servers of lineage and mindmap
- `process`: Signal handling: SIGTERM/SIGHUP behave like Ctrl-C; stdout/stderr setup: UTF-8, closed
  pipes
- `repositories`: Index location of a repository
- `search`: Search of the history: `find_pattern`
- `setup`: Setup of a repository and of MCP clients: hooks, agent instructions, ignore patterns,
  registration
- `text`: Formats line ranges; shell-quoted command suggestions with the user's PATH argument; hints
  about unreadable commits; escapes control characters for the terminal
- `update`: `lineage update`: installs a newer version the way this one was installed
- `viewer`: Web server of the mindmap page
- `workspace_git`: Git access for mindmap workspaces
"""
