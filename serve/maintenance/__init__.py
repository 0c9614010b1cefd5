"""Maintenance commands: `lineage doctor` checks an installation, `lineage gc` deletes unneeded data.

- `doctor`: runs all checks, prints their results
- `environment_checks`: checks of git, the repository, model files, the daemon, hooks and MCP clients
- `findings`: types of check results and of the context of checks
- `gc`: finds, lists and deletes unneeded indexes, commits, cached vectors and leftover files
- `index_checks`: checks of the index directory, disk space, index content, version, locks and DuckDB extensions
"""
