"""Explanation of lines by the commits that wrote them: `explain_change`.

- `blame`: Runs and parses `git blame --porcelain`; reads `.git-blame-ignore-revs`
- `cache`: LRU cache of answers, invalidated by repository state
- `excerpts`: Diff excerpt of a commit for the blamed lines
- `explain_change`: Builds hits of an explanation; explain_change: target, blame, excerpts, history,
  answer; sorts commits newest first
- `file_history`: Neighbouring commits of the file, from the index
- `notes`: Suggests similar file names; explanatory notes about limits of an answer
- `target`: Resolves a path to a work-tree or HEAD file
"""
