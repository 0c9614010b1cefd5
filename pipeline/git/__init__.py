"""Access to git repositories through libgit2 and the git program.

- `attributes`: git attributes of paths
- `changes`: file changes of a tree diff, and exact-rename detection above the similarity limits
- `commit_graph`: git's commit-graph, stored next to the index: fast blame, and an order of commits that agrees with the
  history
- `errors`: errors of repositories and objects that cannot be read, with hints
- `git_cli`: the git program, without pager, prompt, network or external programs
- `git_dir`: git directories: files and settings, shallow boundary, partial clones; search for repositories
- `libgit2`: memory limits of libgit2, and translation of its errors
- `objects`: parsers of commit and tree objects, reader of trees; reachable commits and topological order
- `patches`: parser of unified diffs: line numbers and text of their `@@` parts; lines that a merge itself changed
- `ranges`: ranges of commits in git's syntax, resolved by git
- `releases`: first tag that contains each commit, and the merge that brought it into HEAD's first-parent history
- `repository`: the Repository class: commits, trees, blobs, diffs, attributes, configuration
- `tree_diff`: diffs of two trees through libgit2, with a fast path for plain edits; check for changes of a merge
"""
