"""Access to git repositories: objects, diffs, merges, and the git program.

- `changes`: FileChange record of a tree diff; exact-rename detection above the similarity limit
- `commit_graph`: Creates and refreshes a git commit-graph with changed-path Bloom filters beside
  the index
- `errors`: Errors: not a repository, unsafe owner, damaged, unreadable object; with hints
- `git_cli`: Runs the git executable safely: no pager, prompt, network or external diff; timeouts
- `git_dir`: Reads the git directory layout without libgit2: common dir, shallow file, filters
- `libgit2`: Configures libgit2 memory limits and maps its errors to ours
- `merges`: Finds the lines of a merge commit that differ from every parent (combined diff)
- `objects`: Commit DAG helpers: reachable set, topological order; parses raw commit and tree
  objects
- `patches`: Parses unified diff hunks (`@@`) into line numbers and text
- `repository`: Repository facade over pygit2: commits, trees, blobs, diffs, attributes
- `tree_cache`: LRU cache of parsed tree objects; size-bounded LRU cache
- `tree_diff`: Tree and blob diffs through libgit2, with rename detection; fast path: diffs two
  trees in Python when only regular files were modified
"""
