"""`lineage init`: what it puts into a repository, and takes out again.

- `initialize`: the line: what is to change, then changing it
- `hooks`: git's hook files, with our block in them
- `instructions`: the file that agents read, with our stanza in it
- `changes`: a file's change, before it is made and when it is
- `block`: what our hooks run
- `stanza`: what we tell agents
- `folders`: where git looks for hooks, and what lies in the repository
- `fences`: the part of a file that is ours, between two marks
"""
