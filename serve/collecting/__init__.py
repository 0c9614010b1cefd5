"""`lineage gc`: what under the home nobody needs any more, shown and then let go.

- `collect`: the line: survey, show, ask, sweep
- `fate`: whether a repository is still where its index says
- `garbage`: one thing that may go
- `page`: the list for people
- `survey`: everything that may go
"""
