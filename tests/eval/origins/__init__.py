"""Evaluation of line evolution: lines whose origin a person determined, and the commits that each tool finds.

    python -m tests.eval.origins CLONE... [--folder FOLDER] [--part tuning|holdout] [--steps]

- `lines`: lines with their origins, read from `lines.toml`, and copies of the clones at their revision
- `comparison`: commits of a line by blame, `git log -L` and lineage
"""
