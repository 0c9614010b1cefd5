"""Ranking, measured: how early the right commit comes, for questions whose answers are known.

    python -m tests.eval CLONE...           every protocol a history has questions for
    python -m tests.eval.grading_pool CLONE...      what somebody has yet to grade for the questions written by hand
    python -m tests.eval.learn CLONE...     the reranker's numbers, learnt from these
    python -m tests.eval.filters CLONE...   filtered lanes against exhaustive rankings that are filtered

Each CLONE is the path of a local clone, bare or not; it is only read. Four protocols, each harder than the one
before to answer by words alone:

- changelog: news fragments, answered by the commits that brought them; for projects that keep one fragment per
  change, such as python-attrs/attrs, python-trio/trio and pytest-dev/pluggy
- body: a sentence of a message's body that is not its subject said again, answered by its commit
- scrubbed: subjects asked of the same history without any message, so that only the change can answer
- questions: "how was this done before?", written and graded by hand for four histories: tornadoweb/tornado,
  BurntSushi/ripgrep, square/okhttp, expressjs/express; the files in `questions` say which and why

How to read a table: a line is a ranking, a number a mean over questions with its 95 % bootstrap interval, of
commits, not hunks. MRR@10 is 1 where the answer always comes first, 0.5 where always second; R@n is the share of
questions with an answer in the first n; nDCG@10 weighs graded answers by their place. The second table takes
differences question by question: only where its interval leaves out 0 is one ranking better than the other.
Rankings are the lanes alone, their fusion as the product does it, the product's whole answer (`reranked`), fusion
without one thing or another, plain BM25 and `git log --grep`. Near-identical commits (backports, cherry-picks)
count as one. Tune on some histories and seeds, report on others.

- `protocols`: what each protocol asks
- `question`: a text and its graded answers
- `commits`: a history as its authors tell it
- `near_duplicates`: near-identical commits
- `sampling`: which commits are worth asking for, and a draw of them
- `changelog`: fragments -> questions
- `body_sentences`: a message's body -> a question
- `hidden_messages`: a history -> the same without its messages
- `handwritten`: the sheets of questions
- `histories`: clones -> working copies, indexed
- `evaluation`: one history under one protocol
- `rankings`: one question -> the commits of every ranking
- `baseline`: plain BM25, by DuckDB's own full-text extension
- `grep`: `git log --grep`
- `metrics`: ranks -> measures with intervals
- `results`: numbers kept for each commit of the project
- `learn`: evidence and answers -> the reranker's numbers
- `reliability`: how honest its probabilities are
- `grading_pool`: what is still to be graded
- `filters`: the filters' own check
"""

from serve import config

# As at the product's door, and as there it acts only while numpy is not imported.
config.calm_libraries()
