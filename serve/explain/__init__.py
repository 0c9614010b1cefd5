"""Explanation of lines by the commits that wrote them: `explain_change`; display of commits: `show_commit`.

- `blame`: `git blame`, also of past revisions, and the parser of its output; `.git-blame-ignore-revs`
- `cache`: LRU cache of answers; context of a request, from which the cache key is computed
- `changed_lines`: lines that a commit removes and adds, and rules for moved lines
- `explain_change`: main module: file, blame, hits newest first with excerpts of diffs, data from the index, answer
- `file_history`: reader of the index: indexed and related commits; sentences about what the index lacks
- `line_evolution`: earlier commits that shaped lines, back to the one that introduced them
- `line_search`: search of the index for commits that removed a line, and for possible earlier commits of a line
- `line_similarity`: similarity of lines and of the lines around them; lines that were split
- `line_sources`: lines of a parent commit that became lines of a commit
- `show_commit`: commit with its files, diff of one of them, or a file as it was
- `target`: resolution of a file name to the content to blame, also of a deleted file
"""
