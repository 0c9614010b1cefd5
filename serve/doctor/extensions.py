"""The database's extensions: wheels beside it, which have to be of its own version."""

from __future__ import annotations

from collections.abc import Iterator

from serve.doctor.finding import Finding, Subject, ok, problem
from stores import loadable


def check(_: Subject) -> Iterator[Finding]:
    """Whether those that are installed can be loaded; none is needed for an ordinary index."""
    for name in loadable.EXTENSIONS:
        extension = loadable.installed(name)
        if extension.fault:
            yield problem(
                "extension " + name,
                extension.fault,
                f"`pip install --force-reinstall {extension.distribution}`",
            )
        else:
            said = f"version {extension.version}" if extension.version else "not installed; not needed here"
            yield ok("extension " + name, said)
