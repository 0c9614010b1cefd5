"""Commits that blame, `git log -L` and lineage find for a line."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from serve.explain import line_evolution
from serve.explain.explain_change import Explainer
from serve.explain_types import ExplainAnswer, ExplainRequest
from tests.bench.programs import run_git
from tests.eval.origins.lines import OriginLine


@dataclass(frozen=True, slots=True)
class OriginComparison:
    """Commits found for a line. `blame`, `log`, `chain` and `leads` say whether the origin is among them.

    `log`: `git log -L`. `chain`: hit and evolution. `seconds`: a first answer with evolution, by an explainer without
    a cache. `blame_seconds`: `git blame` of the line.
    """

    line: OriginLine
    answer: ExplainAnswer
    blame: bool
    log: bool
    chain: bool
    leads: bool
    seconds: float
    blame_seconds: float

    @property
    def steps(self) -> int:
        """Number of commits of the evolution."""
        return len(self.answer.meta.explain.evolution)


def compare(line: OriginLine, clone: Path, home: Path) -> OriginComparison:
    """Ask blame, `git log -L` and lineage about a line of a clone at the line's revision."""
    line_range = f"{line.line},{line.line}"
    start_time = time.perf_counter()
    blame = run_git(clone, "blame", "--porcelain", f"-L{line_range}", "--", line.path)
    blame_seconds = time.perf_counter() - start_time
    log = run_git(clone, "log", "--format=%H", "--no-patch", f"-L{line_range}:{line.path}").split()
    request = ExplainRequest(line.path, line.line, line.line, include_evolution=True, include_diff=False)
    start_time = time.perf_counter()
    # Without the limit on time, what is found does not depend on the machine.
    with patch.object(line_evolution, "MAX_SECONDS", 60.0):
        answer = Explainer(home).explain(request, clone)
    seconds = time.perf_counter() - start_time
    details = answer.meta.explain
    if answer.lines[0].text.strip() != line.text:
        raise AssertionError(f"{line.path}:{line.line} is another line: {answer.lines[0].text}")
    chain = {hit.commit_sha for hit in answer.hits} | {step.commit_sha for step in details.evolution}
    return OriginComparison(
        line=line,
        answer=answer,
        blame=blame.startswith(line.origin),
        log=line.origin in log,
        chain=line.origin in chain,
        leads=line.origin in {lead.commit_sha for lead in details.leads},
        seconds=seconds,
        blame_seconds=blame_seconds,
    )
