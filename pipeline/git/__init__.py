"""Access to git repositories through libgit2 and the git program.

- `attributes`: git attributes of paths
- `changes`: file changes of a tree diff, and exact-rename detection above the similarity limits
- `commit_graph`: git commit-graph with changed-path Bloom filters, stored next to the index
- `corrected_dates`: dates that agree with the history, read from the commit-graph
- `discovery`: search for the repositories in a directory tree
- `errors`: errors of repositories and objects that cannot be read, with hints
- `history_cache`: cache of what git computes about whole histories
- `first_parents`: merges that brought the commits of branches into HEAD's first-parent history
- `git_cli`: the git program, without pager, prompt, network or external programs
- `git_dir`: files and settings of a git directory: common directory, shallow boundary, partial clones
- `libgit2`: memory limits of libgit2, and translation of its errors
- `merges`: files and lines of a merge commit that differ from every parent
- `objects`: parsers of commit and tree objects; reachable commits and topological order
- `patch_ids`: digests of what commits change, to find copies of a commit
- `patches`: parser of unified diffs: line numbers and text of their `@@` parts
- `releases`: first tag that contains each commit
- `repository`: the Repository class: commits, trees, blobs, diffs, attributes, configuration
- `tree_cache`: reader of trees that caches parsed directories
- `tree_diff`: diffs of two trees through libgit2, with a fast path for plain edits
"""
