"""Commands of the `lineage` and `mindmap` programs.

- `app`: `lineage` program: all commands
- `entry`: Entry point of `lineage`, with a fast path for git hooks
- `exit_codes`: Conversion of exceptions to messages and exit codes
- `index`: `lineage index`: checks the options and runs the pipeline
- `index_output`: Log events, progress and summary of an index run
- `mindmap`: `mindmap` program: all commands
- `options`: Options of `lineage index`
- `progress`: Progress bar
- `query`: `lineage query` and `lineage explain` commands
- `register`: `register` command of both programs
- `render`: JSON, and terminal output of status and query
- `render_explain`: Terminal output of `lineage explain`
- `render_mindmap`: Terminal output of maps
- `terminal`: Typer app factory, command runner and printing
- `wizard`: `lineage index -i`: dialog and equivalent command
- `wizard_questions`: Questions of the wizard
"""
