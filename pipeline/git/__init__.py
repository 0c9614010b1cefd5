"""Reading git: the door to libgit2, and what its bytes mean.

What a history makes by the hundred thousand is a tuple with names: making a frozen dataclass takes three times as long.

- `repository`: the one door to git: opens a repository and reads its objects
- `differences`: what turns one tree into another, as libgit2 finds it
- `library`: libgit2's memory, and its errors as ours
- `program`: the git program, run so that nothing but its answer comes of it
- `graph`: git's commit-graph, kept beside the index and lent to git
- `layout`: what a repository's folders, small files and settings say of it
- `objects`: the bytes of commits and trees -> their fields
- `folders`: the folders of commits, read and looked through
- `ancestry`: a history as a graph of parents
- `changes`: one file's entry in the difference of two trees
- `edited`: the files edited between two trees
- `recent`: what was read last, within a bound on its size
- `patches`: the `@@` parts of a patch -> line numbers and texts
- `merges`: what a merge itself wrote
- `refusals`: why a repository or an object cannot be read
"""
