"""Setup of a repository and of MCP clients: hooks, agent instructions, ignore patterns, registration.

- `agent_instructions`: Edits AGENTS.md/CLAUDE.md; text for agents
- `file_edit`: Planned file change (preview, then apply); marker-delimited section in a user's file;
  atomic replace of a user's file
- `git_hooks`: Shell snippet installed in git hooks; locates the hooks directory; installs and
  removes the hook snippet
- `init`: `lineage init`
- `json_config`: Edits one JSON entry, preserving formatting
- `mcp_clients`: Known MCP clients and config paths; server command, arguments, environment; config
  entry formats of clients
- `plan`: Prints the plan; `lineage plan`; managed section of `.lineageignore`
- `register`: Registers the MCP server with a client; reads, backs up and writes a client config
  file
- `toml_config`: Edits one TOML table, preserving formatting
"""
