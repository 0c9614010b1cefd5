"""Telling MCP clients of a server: what to write into which file, writing it, taking it out again.

- `register`: what a person asked for, the file that is meant, what is said of it
- `target`: a client's file: the server merged into it or taken out, after a backup
- `clients`: the clients we know, and where each keeps its configuration
- `shapes`: the forms an entry has, and the texts it goes into
- `server`: the server to be told of: its command and what it needs
- `json_text`: an entry put into JSON, every other byte left alone
- `toml_text`: the same for TOML
"""
