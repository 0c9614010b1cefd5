"""Comparison of `lineage grep` with `git log -S` and `git log -G`, on patterns sampled from a history's own diffs.

python -m tests.eval.exact_search CLONE...

For each pattern the command compares the commits that both find. It prints a row for each kind of pattern, with the
number of commits that only one of them finds by reason, and each commit whose reason is not one of the documented ones:
an ignored path, a binary file, a rename that git does not follow, or a merge, of which `git log` shows no change.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pipeline.git.changes import decode_path
from pipeline.git.repository import Repository, open_repository
from pipeline.ignore import IgnoreRules
from serve.commit_types import ChangeSearchRequest
from serve.search.exact_search import search_changes
from tests.bench.programs import run_git, run_git_bytes, run_lineage

PATTERNS: Final = 100
SEED: Final = 20
# Longer lines are data, in which every fragment is unique.
MAX_LINE_LENGTH: Final = 200
UNEXPLAINED: Final = "unexplained"
# More than any history has.
NO_LIMIT: Final = 10**9


@dataclass(frozen=True, slots=True)
class SampledPattern:
    """Pattern with its kind: `word`, `fragment`, `punctuation`, `non-ASCII`, or `expression` for `-G`."""

    kind: str
    text: str

    @property
    def is_regex(self) -> bool:
        return self.kind == "expression"


@dataclass(slots=True)
class Comparison:
    """Results of all patterns of one kind.

    `equal`: patterns without a commit that differs for another than a documented reason. `commits`: found by git.
    `reasons`: number of the commits that differ, by reason.
    """

    patterns: int = 0
    equal: int = 0
    commits: int = 0
    lineage_seconds: float = 0.0
    git_seconds: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)


def sample_patterns(clone: Path, count: int, seed: int) -> list[SampledPattern]:
    """Return patterns from changed lines of the history: as many of each kind, if it has so many."""
    generator = random.Random(seed)  # noqa: S311 - a repeatable sample, nothing secret
    diffs = run_git(clone, "log", "-p", "--no-merges", "--unified=0", "--format=", "--no-textconv")
    lines = [
        line[1:]
        for line in diffs.split("\n")
        if re.match(r"[-+](?![-+]{2} )", line) and "�" not in line and "\0" not in line
    ]
    lines = [line for line in lines if line.strip() and len(line) <= MAX_LINE_LENGTH]
    foreign_lines = [line for line in lines if not line.isascii()]
    kinds = {
        "word": (lines, _pick_word),
        "fragment": (lines, _pick_fragment),
        "punctuation": (lines, _pick_punctuation),
        "non-ASCII": (foreign_lines, _pick_foreign_word),
        "expression": (lines, _build_expression),
    }
    patterns: dict[SampledPattern, None] = {}
    for kind, (source, pick) in kinds.items():
        for _ in range(count * 10 if source else 0):
            if sum(pattern.kind == kind for pattern in patterns) == count // len(kinds):
                break
            if text := pick(generator.choice(source), generator):
                patterns[SampledPattern(kind, text)] = None
    return list(patterns)


def _pick_word(line: str, generator: random.Random) -> str:
    words = re.findall(r"\w{3,}", line)
    return generator.choice(words) if words else ""


def _pick_fragment(line: str, generator: random.Random) -> str:
    start = generator.randrange(len(line))
    return line[start : start + generator.randint(4, 30)].rstrip("\r")


def _pick_punctuation(line: str, generator: random.Random) -> str:
    runs = re.findall(r"[^\w\s][^\w]*", line.rstrip("\r"), re.ASCII)
    return generator.choice(runs) if runs else ""


def _pick_foreign_word(line: str, generator: random.Random) -> str:
    words = [word for word in re.findall(r"\S+", line) if not word.isascii()]
    return generator.choice(words)[:20] if words else ""


def _build_expression(line: str, generator: random.Random) -> str:
    """Return an expression that matches the line, with syntax that RE2 and git share."""
    words = re.findall(r"[A-Za-z_]{3,}", line)
    if not words:
        return ""
    word = generator.choice(words)
    start = line.index(word)
    before, after = re.escape(line[:start]), re.escape(line[start + len(word) : start + len(word) + 6])
    shapes = (
        f"^{before}[a-z_]+" if len(before) < 40 else word,
        f"{word[:2]}[^x]*{word[-1]}$",
        rf"\b{word}\b",
        f"({word}|{word[::-1]})[[:space:]]*[(=:.]",
        f"[A-Za-z]+{re.escape(after.replace(chr(92), ''))}".rstrip("\r"),
        f"{word}.+[0-9]{{2,4}}",
    )
    return generator.choice(shapes)


def compare(clone: Path, home: Path, patterns: Sequence[SampledPattern]) -> Iterator[str]:
    """Compare each pattern; yield the commits that differ, then a table."""
    repository = open_repository(clone)
    rules = IgnoreRules.from_repository(repository)
    comparisons: dict[str, Comparison] = {}
    for pattern in patterns:
        comparison = comparisons.setdefault(pattern.kind, Comparison())
        request = ChangeSearchRequest(pattern.text, pattern.is_regex, limit=NO_LIMIT)
        started = time.perf_counter()
        found = {hit.commit_sha for hit in search_changes(request, clone, home).hits}
        comparison.lineage_seconds += time.perf_counter() - started
        option = f"-{'G' if pattern.is_regex else 'S'}{pattern.text}"
        started = time.perf_counter()
        expected = set(run_git(clone, "log", option, "--no-textconv", "--format=%H").split())
        comparison.git_seconds += time.perf_counter() - started
        reasons = {
            sha: _explain(repository, rules, option, sha, is_found=sha in found) for sha in found ^ expected
        }
        comparison.patterns += 1
        comparison.commits += len(expected)
        comparison.equal += UNEXPLAINED not in reasons.values()
        comparison.reasons.update(reasons.values())
        for sha in sorted(sha for sha, reason in reasons.items() if reason == UNEXPLAINED):
            yield f"{pattern.kind} {pattern.text!r}: {sha[:10]} only in {'lineage' if sha in found else 'git'}"
    for kind, comparison in comparisons.items():
        reasons_text = ", ".join(f"{count} {reason}" for reason, count in comparison.reasons.most_common())
        yield (
            f"{clone.name}, {kind}: {comparison.equal} of {comparison.patterns} equal, {comparison.commits} commits, "
            f"differing: {reasons_text or 'none'}; git {comparison.git_seconds:.1f} s, "
            f"lineage {comparison.lineage_seconds:.1f} s"
        )


def _explain(repository: Repository, rules: IgnoreRules, option: str, sha: str, *, is_found: bool) -> str:
    """Return why only one of both finds a commit."""
    if len(repository.read_commit(sha).parents) > 1:
        return "merge"
    changes = repository.diff_with_parents(sha)[0].changes
    renamed_paths = {path for change in changes if change.old_path for path in (change.path, change.old_path)}
    if is_found:
        return "rename" if renamed_paths else UNEXPLAINED
    options = ("--no-textconv", "--no-renames", "--numstat", "-z", "--format=")
    reasons = set()
    for row in run_git_bytes(repository.root, "show", option, *options, sha).split(b"\0"):
        added, _, path = row.strip(b"\n").split(b"\t", 2) if row.count(b"\t") == 2 else (b"", b"", b"")
        if path and path not in renamed_paths:
            is_ignored = rules.is_ignored(decode_path(path))
            reasons.add("ignored path" if is_ignored else "binary file" if added == b"-" else UNEXPLAINED)
    if UNEXPLAINED in reasons or not (reasons or renamed_paths):
        return UNEXPLAINED
    return " and ".join(sorted(reasons)) or "rename"


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare the patterns of each clone."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.eval.exact_search",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("clones", nargs="+", type=Path, metavar="CLONE")
    parser.add_argument(
        "--patterns", type=int, default=PATTERNS, help="for each clone (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="of the sample (default: %(default)s)")
    parser.add_argument("--home", type=Path, help="LINEAGE_HOME with indexes (default: build them)")
    options = parser.parse_args(arguments)
    with TemporaryDirectory(prefix="lineage-exact-search-") as folder:
        home = options.home or Path(folder)
        for clone in options.clones:
            run_lineage(home, "index", clone.resolve(), "--skip-vectors", "--no-progress")
            for line in compare(
                clone.resolve(), home, sample_patterns(clone, options.patterns, options.seed)
            ):
                print(line, flush=True)  # noqa: T201 - output of the command


if __name__ == "__main__":
    main()
