"""Command that compares blame, `git log -L` and lineage on lines whose origin is known.

Each CLONE is named like a repository of `lines.toml`. It is copied at the revision of the lines and indexed without
vectors. `--folder` keeps the copies and indexes for the next run. `--steps` prints every step, for a reader to judge.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from serve.explain.explain_change import Explainer
from serve.explain_types import ExplainRequest
from tests.bench.histories import History
from tests.bench.programs import run_lineage
from tests.bench.report import compute_median, create_temporary_directory, print_line
from tests.eval.histories import Variant, prepare_evaluation_copy
from tests.eval.origins.comparison import OriginComparison, compare
from tests.eval.origins.lines import OriginLine, load_lines


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.eval.origins",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("clones", nargs="+", type=Path, metavar="CLONE")
    parser.add_argument("--folder", type=Path, help="folder for copies and indexes")
    parser.add_argument("--part", choices=["tuning", "holdout"], help="only these lines")
    parser.add_argument("--steps", action="store_true", help="print every step and lead")
    arguments = parser.parse_args()
    lines = [
        line
        for line in load_lines()
        if arguments.part is None or line.is_holdout == (arguments.part == "holdout")
    ]
    results: list[OriginComparison] = []
    with ExitStack() as stack:
        folder = arguments.folder or stack.enter_context(create_temporary_directory())
        for clone in arguments.clones:
            name = History.from_clone(clone, clone).name
            found = compare_lines(clone, folder, [line for line in lines if line.repository == name])
            for each in found:
                print_found(each, with_steps=arguments.steps)
            print_summary(name, found)
            results += found
    print_summary("all", results)


def compare_lines(clone: Path, folder: Path, lines: Sequence[OriginLine]) -> list[OriginComparison]:
    """Compare the tools on lines of one clone, after its copy is made and indexed."""
    if not lines:
        return []
    copy = prepare_evaluation_copy(clone, folder, Variant.WHOLE, lines[0].revision)
    home = folder / "origins"
    options = ("--incremental", "--no-progress", "--skip-vectors")
    run_lineage(home, "index", copy.indexed_path, *options, memory=False)
    # Imports and the first connection are not part of a line's time.
    Explainer(home).explain(ExplainRequest(lines[0].path, include_evolution=True), copy.indexed_path)
    return [compare(line, copy.indexed_path, home) for line in lines]


def print_found(found: OriginComparison, *, with_steps: bool) -> None:
    """Print one line: what found its origin, steps and time."""
    marks = "".join(
        letter if is_found else "-"
        for letter, is_found in zip("BLCG", (found.blame, found.log, found.chain, found.leads), strict=True)
    )
    line = found.line
    print_line(
        f"{marks} {found.steps:2} steps {found.seconds * 1000:4.0f} ms  {line.repository} "
        f"{line.path.rpartition('/')[2]}:{line.line}  {line.text[:60]}"
    )
    details = found.answer.meta.explain
    if with_steps:
        print_line(f"       origin {line.origin[:9]} {line.reason}")
        for hit in found.answer.hits:
            subject = hit.commit_message.partition("\n")[0]
            print_line(f"       hit         {hit.commit_sha[:9]} {hit.commit_date[:10]} {subject[:60]}")
        for step in details.evolution:
            print_line(
                f"       {step.step:11} {step.commit_sha[:9]} {step.commit_date[:10]} {step.provenance:8} "
                f"{step.file_path.rpartition('/')[2]}: {step.text[:90]}"
            )
        for lead in details.leads:
            print_line(f"       lead        {lead.commit_sha[:9]} {lead.commit_date[:10]} {lead.text[:60]}")
        if details.evolution_limitation:
            print_line(f"       {details.evolution_limitation}")


def print_summary(name: str, results: Sequence[OriginComparison]) -> None:
    """Print how many origins each tool found, and times."""
    if not results:
        return
    count = len(results)
    blame, log, chain, leads = (
        sum(found)
        for found in zip(*((r.blame, r.log, r.chain, r.chain or r.leads) for r in results), strict=True)
    )
    times = [result.seconds for result in results]
    print_line(
        f"{name}: of {count} origins blame {blame}, git log -L {log}, chain {chain} ({chain / count:.0%}), "
        f"chain or leads {leads} ({leads / count:.0%}); {sum(r.steps for r in results)} steps; "
        f"median {compute_median(times) * 1000:.0f} ms, slowest {max(times) * 1000:.0f} ms, "
        f"git blame {compute_median([r.blame_seconds for r in results]) * 1000:.0f} ms\n"
    )


if __name__ == "__main__":
    main()
