"""Copies of a clone for each protocol, and their indexes. Existing ones in a folder are reused."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pipeline.options import EncoderName
from tests.bench.histories import History, clone_history
from tests.bench.programs import run_git, run_lineage
from tests.eval import hidden_messages
from tests.eval.changelog import append_ignore_rules


class Variant(Enum):
    """Content of the index: everything, no changelogs, or neither changelogs nor commit messages."""

    WHOLE = "whole"
    NO_CHANGELOGS = "unannounced"
    NO_MESSAGES = "scrubbed"


@dataclass(frozen=True, slots=True)
class EvaluationCopy:
    """Copy of a clone for an evaluation: the original history at a commit, and the variant of it that is indexed.

    `indexed_shas` maps original shas to the shas of the variant. A sha that is missing is the same in both.
    """

    history: History
    original_path: Path
    indexed_path: Path
    indexed_shas: Mapping[str, str]


def prepare_evaluation_copy(
    clone: Path, folder: Path, variant: Variant, head: str = "HEAD"
) -> EvaluationCopy:
    """Create or find the evaluation copy of a variant with `head` checked out. This does not index it."""
    tip = run_git(clone, "rev-parse", f"{head}^{{commit}}")
    original = _get_path(folder, Variant.WHOLE, clone, tip)
    if not original.exists():
        _create_folder(original, lambda target: _clone_at(clone, target, tip))
    history = History.from_clone(clone, original)
    if variant is Variant.WHOLE:
        return EvaluationCopy(history, original, original, {})
    indexed = _get_path(folder, variant, clone, tip)
    if not indexed.exists():
        _create_folder(indexed, lambda target: _create_variant(variant, original, target))
    shas = hidden_messages.load_sha_map(indexed) if variant is Variant.NO_MESSAGES else {}
    return EvaluationCopy(history, original, indexed, shas)


def update_index(copy: EvaluationCopy, home: Path, encoder: EncoderName) -> None:
    """Index the variant up to its HEAD."""
    options = ("--incremental", "--no-progress", "--encoder", encoder)
    run_lineage(home, "index", copy.indexed_path, *options, memory=False)


def _get_path(folder: Path, variant: Variant, clone: Path, tip: str) -> Path:
    """Return a path that is unique for variant, commit and clone."""
    return folder / f"{variant.value}-{tip[:12]}" / clone.absolute().as_posix().strip("/").replace("/", "-")


def _create_variant(variant: Variant, original: Path, target: Path) -> None:
    if variant is Variant.NO_MESSAGES:
        hidden_messages.hide_messages(original, target)
    else:
        clone_history(original, target)
    append_ignore_rules(target)


def _clone_at(clone: Path, target: Path, tip: str) -> None:
    clone_history(clone, target)
    run_git(target, "reset", "--quiet", "--hard", tip)


def _create_folder(path: Path, create: Callable[[Path], None]) -> None:
    """Create a folder under a temporary name and rename it, so that an existing folder is always complete."""
    part = path.with_name(f"{path.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.parent.mkdir(parents=True, exist_ok=True)
    create(part)
    part.rename(path)
