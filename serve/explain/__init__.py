"""Explanation of lines by the commits that wrote them: `explain_change`.

- `blame`: Runs and parses `git blame --porcelain`; reads `.git-blame-ignore-revs`
- `cache`: LRU cache of answers, keyed by everything an answer depends on
- `excerpts`: Diff excerpt of a commit around the blamed lines
- `explain_change`: Main line: file, blame, hits newest first, enrichment, answer
- `file_history`: Enrichment from the index: indexed commits and neighbours in the file's history
- `notes`: Sentences about the limits of an answer, hints, similar file names
- `target`: Resolution of a file name to the content to blame
"""
