"""Maintenance commands: `lineage doctor` (checks of an installation) and `lineage gc` (deletion of unneeded data).

- `checks`: types of the checks of `lineage doctor`; checks of the index and its directory
- `doctor`: `lineage doctor`: run of all checks, output of their results
- `environment_checks`: checks of git, the repository, model files, the daemon, hooks, MCP clients and their servers
- `gc`: `lineage gc`: list and deletion of unneeded indexes, commits, cached vectors and leftover files
"""
