"""`lineage doctor` and `lineage gc`: checks of an installation, and removal of data that nothing needs.

- `doctor`: Runs all checks; prints check results
- `environment_checks`: Checks MCP client configuration; checks the daemon; checks git hooks; checks
  the model files; checks git and the repository
- `findings`: Check result type
- `gc`: `lineage gc`: scan, list, confirm, delete; whether an index's repository still exists;
  record of one deletable item; prints the list of deletable items; scans for deletable files and
  cache entries
- `index_checks`: Checks disk space and permissions; checks DuckDB extensions; checks index
  integrity, version, locks
"""
