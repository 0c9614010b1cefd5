"""Evaluation of ranking: queries with relevance judgments, run on local clones.

    python -m tests.eval CLONE...                   run every protocol that has queries for a history
    python -m tests.eval.grading_pool CLONE...      print unjudged commits of the handwritten queries
    python -m tests.eval.learn CLONE...             fit the reranker's weights
    python -m tests.eval.filters CLONE...           compare filtered search with exhaustive search
    python -m tests.eval.origins CLONE...           compare blame, `git log -L` and lineage on the origin of lines
    python -m tests.eval.exact_search CLONE...      compare exact search with `git log -S` and `-G`

Each CLONE is the path of a local clone, bare or not; it is only read. README.md describes the protocols, the tables
and the results.

- `protocols`: queries and index content of each protocol
- `judgments`: queries with relevance judgments, and the handwritten query sheets
- `changelog`: queries from news fragments
- `message_queries`: queries from commit messages
- `commits`: commits of a repository and groups of near-duplicates
- `conftest`: index runs of the tests in the test process
- `hidden_messages`: copy of a repository without its messages
- `histories`: copies of clones for the evaluation, and their indexes
- `evaluation`: evaluation of one history under one protocol
- `rankings`: all rankings of a query
- `baselines`: plain BM25 and `git log --grep`
- `metrics`: MRR, recall and nDCG with bootstrap confidence intervals
- `reliability`: calibration of the reranker's probabilities
- `results`: results file
- `grading_pool`: command that prints unjudged commits
- `learn`: command that fits the reranker's weights
- `filters`: command that checks filtered search
- `origins`: lines whose origin is known, and the commits that each tool finds for them
- `exact_search`: command that checks exact search
"""

from serve import config

# The programs configure libraries the same way. It has no effect after numpy is imported.
config.configure_libraries()
