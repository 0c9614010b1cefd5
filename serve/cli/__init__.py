"""Commands of the `lineage` and `mindmap` programs.

- `app`: Typer application: all `lineage` commands
- `entry`: Fast check whether an index run is already queued; console-script entry point with the
  hook fast path
- `exit_codes`: Maps exceptions to messages and exit codes
- `index`: `lineage index`: resolves options and runs the pipeline
- `index_output`: Events and summary of an index run
- `mindmap`: `mindmap` command
- `options`: Options of `lineage index`; resource and provider choices
- `progress`: Progress bar
- `query`: `lineage query` and `lineage explain` commands
- `register`: `register` command of both programs
- `render`: JSON and terminal output of status and query
- `render_explain`: Terminal output of `lineage explain`
- `render_mindmap`: Terminal output of maps
- `terminal`: Typer app factory, printing, error handling
- `wizard`: Options to equivalent command line; questionary prompts; `lineage index -i`
- `wizard_questions`: Questions of the wizard
"""
