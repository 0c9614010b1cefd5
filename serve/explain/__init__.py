"""Explanation of lines by the commits that wrote them: `explain_change`; display of commits: `show_commit`.

- `blame`: Runs and parses `git blame --porcelain`, also of past revisions; reads `.git-blame-ignore-revs`
- `cache`: LRU cache of answers; context of a request, which is the key
- `changed_lines`: Lines that a commit removes and adds, and rules for moved lines
- `explain_change`: Main line: file, blame, hits newest first with excerpts of diffs, data from the index, answer
- `file_history`: Reader of the index: indexed and related commits; sentences about what the index lacks
- `line_evolution`: Earlier commits that shaped lines, back to the one that introduced them
- `line_search`: Search of the index for commits that removed a line, or that may have had its idea
- `line_similarity`: Similarity of lines and of the lines around them; lines that were split
- `line_sources`: Line of a parent commit that became a line of a commit
- `show_commit`: Commit with its files, diff of one of them, or a file as it was
- `target`: Resolution of a file name to the content to blame, also of a deleted file
"""
