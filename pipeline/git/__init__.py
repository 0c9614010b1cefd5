"""Access to git repositories through libgit2 and the git program.

- `attributes`: git attributes of paths; globs, matched as in git
- `changes`: file changes of a tree diff; detection of renames that libgit2 does not find
- `commit_graph`: git's commit-graph file, stored next to the index, which makes blame fast; its corrected dates
- `errors`: errors of repositories and objects that cannot be read, with hints
- `git_cli`: the git program, without pager, prompt, network or external programs
- `git_dir`: files and settings of git directories, shallow boundary, partial clones; search for repositories
- `libgit2`: memory limits of libgit2, functions that pygit2 lacks, and translation of errors
- `objects`: parsers of commit, tag and tree objects; reader of trees; reachable commits and topological order
- `patches`: parser of unified diffs: line numbers and text of their `@@` parts; lines that a merge itself changed
- `ranges`: ranges of commits in git's syntax, resolved by git
- `releases`: first tag that contains each commit; merge that brought each commit into HEAD's first-parent history
- `repository`: the Repository class: commits, trees, blobs, diffs, attributes, configuration
- `tree_diff`: diffs of two trees through libgit2, with a fast path for regular files; check for changes by a merge
"""
