"""Why does this code look the way it does? From a file and lines to the commits that made them.

- `answer`: commits as an explanation shows them
- `blame`: the git program's blame, started early and read late
- `excerpts`: a commit's own change to the lines it is blamed for
- `explain`: the straight line from request to answer
- `ignoring`: commits that blame looks through
- `meant`: files that may have been meant by a name that none has
- `notes`: what limits an answer, in sentences
- `order`: newest first
- `page`: an answer as a person sees it
- `related`: neighbours in the file's history, from the index
- `request`: what is asked, checked
- `spans`: line numbers as a person reads them
- `target`: what the file asked about is
- `warm`: answers given before, as long as everything they depend on is the same
"""
