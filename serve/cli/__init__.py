"""Commands of the `lineage` and `mindmap` programs.

- `app`: `lineage` program, with all its commands
- `changes`: `lineage grep`, `lineage log`, `lineage trace`, `lineage related` and `lineage show` commands
- `entry`: entry point of `lineage`, with a fast path for git hooks
- `index`: `lineage index` of one repository: options and run of the pipeline
- `index_many`: `lineage index` of several repositories
- `index_output`: log events, progress bar and summary of an index run
- `mindmap`: `mindmap` program, with all its commands and the terminal output of maps
- `query`: `lineage query` and `lineage explain` commands
- `register`: `register` command of both programs
- `render`: JSON of `query` and `explain`, terminal output of `status`, `query` and `explain`
- `render_changes`: terminal output of `grep`, `log`, `trace`, `related` and `show`
- `sql`: `lineage sql` command, with its prompt and output formats
- `terminal`: typer app factory, command runner, exit codes of errors, printing
- `wizard`: dialog of `lineage index -i`
- `wizard_questions`: questions of the wizard
"""
