"""Ranking, measured: how often the commit that made a change comes first when its author describes the change.

    python -m tests.eval.changelog CLONE...     each lane alone, fusion, plain BM25, with intervals
    python -m tests.eval.filters CLONE...       filtered lanes against exhaustive rankings that are filtered

Each CLONE is the path of a local clone, bare or not; it is only read. `changelog` wants projects that keep one
news fragment per change, such as python-attrs/attrs, python-trio/trio and pytest-dev/pluggy. Scores are of
commits, not hunks: MRR@10 and recall at 1, 5, 10, 50, with 95 % bootstrap intervals over the questions.

- `changelog`: the command; clones, indexes, asks, prints
- `protocol`: fragments -> questions with known answers
- `rankings`: one question -> the commits of every ranking
- `baseline`: plain BM25, by DuckDB's own full-text extension
- `metrics`: ranks -> measures with intervals
- `filters`: the filters' own check
"""

from serve import settings

# As at the product's door, and as there it acts only while numpy is not imported.
settings.calm_algebra()
