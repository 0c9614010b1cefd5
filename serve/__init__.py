"""Everything a person or a program talks to; the only place where the other packages meet.

- `entry`: where the program starts, and where a run that is not needed leaves
- `answering`: who answers: the shared daemon, or this process
- `answers`: the answers to both questions, field by field
- `cli`: the `lineage` command: parse, call, print
- `indexing`: `lineage index`: flags, the run, what a person sees of it
- `daemon`: one process that answers for all of a person's sessions
- `engine`: both questions, answered in this process
- `envelope`: what both questions share
- `errors`: errors of a question or an option
- `exits`: where errors become text and exit codes
- `find`: how was it done before? from a query to ranked commits
- `explain`: why does this code look the way it does? from lines to the commits that made them
- `lineage_tools`: the `lineage-mcp` command: both questions as MCP tools
- `mcp_door`: what both MCP servers share
- `questions`: the two questions
- `initializing`: `lineage init`: hooks, and what agents are told
- `replacing`: a person's own file, read and replaced
- `progress`: the progress bar of an index run
- `logs`: log events on stderr
- `resources`: what a person may choose of the machine
- `registering`: telling MCP clients of a server
- `render`: answers as JSON for programs and as a page for people
- `settings`: the only reader of the environment
- `placing`: where the index of a repository lives
- `standing`: how an index stands to its repository's HEAD
"""
