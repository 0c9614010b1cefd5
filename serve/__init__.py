"""User interfaces: commands, MCP servers, daemon, viewer, search and explanation.

- `analysis`: Data frames and charts of a history, for notebooks; `find_related_files`; `summarize_range`
- `api_types`: Shared parts of requests and answers: validation, index status, JSON form, dates
- `backend`: Choice between the daemon and an engine in this process; the engine, with its models and open indexes
- `cli`: Commands of the `lineage` and `mindmap` programs
- `commit_ranges`: Ranges of commits in requests, and how many of their commits an index has
- `commit_types`: Requests and answers of `search_changes`, `show_commit` and `trace_symbol`, and their JSON
- `config`: Package name and version; settings from environment variables
- `daemon`: Background process that keeps models and indexes loaded, and its client
- `errors`: User-facing request errors
- `evidence`: References, first release, copies and reverts of the commits of an answer
- `excerpts`: Excerpts of diffs; reduction of an answer to a level of detail or a number of tokens
- `explain`: Explanation of lines by the commits that wrote them: `explain_change`; `show_commit`
- `explain_types`: Request and answer of `explain_change`
- `find_types`: Request and answer of `find_pattern`
- `index_status`: Status of an index relative to HEAD; hints shared by all answers
- `maintenance`: `lineage doctor` and `lineage gc`: checks, and removal of unneeded data
- `mcp`: MCP servers of lineage and mindmap
- `process`: Termination signals, standard streams, log (logfmt on stderr) and memory
- `references`: References in commit messages: issues, pull requests, tickets, trailers
- `related_types`: Request and answer of `find_related_files`, and their JSON
- `repositories`: Names and paths of indexed repositories; access to their indexes by SQL, and to git
- `search`: Search of the history: `find_pattern` and `search_changes`
- `server_common`: Parts shared by the servers: queue of calls, shutdown signals, file identity, access log
- `setup`: Setup of a repository and of MCP clients: hooks, agent instructions, ignore patterns,
  registration
- `text`: Line ranges, counts, suggested commands, hints about unreadable commits, escapes of unsafe characters
- `trace`: History of a symbol by its name: `trace_symbol`
- `update`: `lineage update`: installation of a newer version in the same way as the current one
- `viewer`: Web server of the mindmap page
"""
