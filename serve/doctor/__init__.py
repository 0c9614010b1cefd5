"""`lineage doctor`: everything lineage stands on, looked at and left as it is.

- `examine`: the line: check after check, each on its own
- `clients`: what MCP clients are told of our server
- `daemon`: whether the shared daemon answers, and who could meet it
- `disk`: room, and who may read what is kept
- `extensions`: the database's extensions, where they are installed
- `finding`: what a check finds, and what it looks at
- `hooks`: git's hooks, their block, and the program they start
- `index`: whether the index opens, is whole and fits; who holds it
- `models`: the bundled files, and whether a text embeds
- `page`: findings as text and as JSON
- `repository`: the git program and the repository
"""
