"""Check after check, each on its own: one that fails is a finding, and stops no other."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from pipeline.git.refusals import NotARepository
from pipeline.git.repository import open_repository
from serve.doctor import clients, daemon, disk, extensions, hooks, index, models, repository
from serve.doctor.finding import Finding, Subject, problem, warning
from serve.pasting import pasted
from serve.placing import place_of
from serve.settings import Settings
from stores.errors import LineageError

Check: TypeAlias = Callable[[Subject], Iterable[Finding]]

CHECKS: Final[dict[str, Check]] = {
    "git": repository.check_git,
    "repository": repository.check_repository,
    "home": disk.check_home,
    "room": disk.check_room,
    "index": index.check_index,
    "locks": index.check_locks,
    "write-ahead log": index.check_log,
    "model files": models.check_files,
    "encoder": models.check_encoder,
    "encoder static": models.check_table,
    "cross-encoder": models.check_cross_encoder,
    "extensions": extensions.check,
    "daemon": daemon.check,
    "hooks": hooks.check,
    "clients": clients.check,
}

logger = logging.getLogger(__name__)


def examine(path: Path, settings: Settings, checks: dict[str, Check] = CHECKS) -> Iterator[Finding]:
    """What each check finds, as it finds it; nothing is written, and no daemon started."""
    subject = Subject(path, settings, Path(sys.executable).parent)
    opened, refused = _opened(subject)
    if refused:
        yield refused
    for name, check in checks.items():
        yield from map(_from_here, _guarded(name, check, opened))


def _opened(subject: Subject) -> tuple[Subject, Finding | None]:
    """The subject with its repository and place, or what keeps us from them."""
    try:
        repository = open_repository(subject.path)
        found = replace(subject, repository=repository)
        return replace(found, place=place_of(subject.settings.home, repository)), None
    except NotARepository as error:
        remedy = "Run it in a repository, or name one: what concerns one was not checked."
        return subject, warning("repository", error.message, remedy)
    except LineageError as error:
        return subject, problem("repository", error.message, f"{error.hint[:1].upper()}{error.hint[1:]}.")


def _from_here(finding: Finding) -> Finding:
    """The finding, its commands as they are to be run where the person stands."""
    return replace(finding, found=pasted(finding.found), remedy=pasted(finding.remedy))


def _guarded(name: str, check: Check, subject: Subject) -> Iterator[Finding]:
    try:
        yield from check(subject)
    except LineageError as error:
        yield problem(name, error.message, error.hint)
    except Exception as error:  # whatever it is, the other checks say more about it
        logger.debug("the check of %s failed", name, exc_info=True)
        said = str(error) or type(error).__name__
        yield problem(name, f"could not be checked: {said.splitlines()[0]}", "LINEAGE_LOG=debug says where.")
