"""Explanation of lines by the commits that wrote them: `explain_change`; display of commits: `show_commit`.

- `blame`: Runs and parses `git blame --porcelain`; reads `.git-blame-ignore-revs`; diff excerpts around blamed lines
- `cache`: LRU cache of answers, keyed by everything an answer depends on
- `deleted_file`: Commit that removed a path, its last version, and where its lines went
- `explain_change`: Main line: file, blame, hits newest first, data from the index, answer
- `file_history`: Reader of the index: indexed and related commits, and commits that changed given lines
- `line_evolution`: Earlier commits that shaped lines, back to the one that introduced them
- `line_similarity`: Similarity of two lines of code
- `line_sources`: Line of a parent commit that became a line of a commit
- `notes`: Sentences about the limitations of an answer, hints, similar file names
- `show_commit`: Commit with its files, diff of one of them, or a file as it was
- `target`: Resolution of a file name to the content to blame
"""
