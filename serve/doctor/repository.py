"""The git program and the repository."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.git import program
from pipeline.git.program import GitMissing
from pipeline.git.refusals import UnreadableObject
from pipeline.git.repository import Repository
from serve.doctor.finding import Finding, Subject, ok, problem, warning


def check_git(_: Subject) -> Iterator[Finding]:
    """Whether there is a git that is new enough: blame and the commit-graph are its work."""
    try:
        said = program.version()
    except GitMissing as missing:
        yield problem("git", "no git program on PATH", missing.hint)
        return
    oldest = ".".join(map(str, program.OLDEST))
    if program.numbered(said) < program.OLDEST:
        yield problem(
            "git", f"version {said or 'unknown'}; {oldest} is the oldest that works", "Install a newer git."
        )
        return
    yield ok("git", f"version {said}")


def check_repository(subject: Subject) -> Iterator[Finding]:
    """Whether the repository's history can be read, and how much of it is here."""
    repository = subject.repository
    if repository is None:
        return
    try:
        head = repository.head()
        if head is None:
            yield warning("repository", f"{repository.root} has no commits yet", "Commit something.")
            return
        repository.commit(head)
    except UnreadableObject as error:
        yield problem("repository", error.message, f"{error.hint.capitalize()}.")
        return
    yield _kind(repository)


def _kind(repository: Repository) -> Finding:
    if repository.is_partial:
        found = f"{repository.root}, a partial clone: commits with absent objects are not indexed"
        return warning("repository", found, "`git fetch --refetch --no-filter` brings what is absent.")
    if repository.is_shallow:
        found = f"{repository.root}, a shallow clone: history ends at its boundary"
        return warning("repository", found, "`git fetch --unshallow`, then `lineage index`.")
    return ok("repository", f"{repository.root}{', bare' if repository.is_bare else ''}")
