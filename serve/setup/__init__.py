"""Setup of repositories and MCP clients: `lineage init`, `plan` and `register`.

- `config_formats`: edits of one entry in a JSON or TOML text
- `file_edit`: managed sections in users' files, atomic writes, planned changes
- `git_hooks`: hook snippet, hooks directory, edits of hook files
- `init`: `lineage init`, and the section for coding agents in AGENTS.md or CLAUDE.md
- `mcp_clients`: known MCP clients, their configuration paths and entry shapes
- `plan`: `lineage plan`: survey of the history, suggestions in `.lineageignore`
- `register`: `register` command: edits of clients' configuration files
"""
