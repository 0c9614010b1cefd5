"""pip, pipx and uv: a new version in the place of the old one, or the old one as it was."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from serve import about
from serve.updating import keeping, places
from serve.updating.programs import ProgramFailed, said
from serve.updating.receipt import Receipt
from serve.updating.sources import Offer


def install(receipt: Receipt, offer: Offer, folder: Path, tell: Callable[[str], None]) -> None:
    """Install what is offered, as the receipt's installer does, with its commands in the folder.

    `tell` hears of a command that undoes what is done in place, before it is done.
    """
    environment = Path(receipt.environment)
    if receipt.installer == "pip":
        _beside(environment, offer)
        places.link_commands(environment, folder)
        return
    with keeping.kept(environment, tell):
        if receipt.installer == "pipx":
            _pipx(environment, offer, folder)
        else:
            _uv(environment, offer, folder)
        check(environment, offer)


def check(environment: Path, offer: Offer) -> None:
    """Refuse a version that does not run, or is not the one that was offered."""
    told = said(environment / "bin" / "lineage", "--version").strip()
    if told != f"lineage {offer.version}":
        raise ProgramFailed(f"What was installed says `{told}`, not `lineage {offer.version}`.")


def _beside(prefix: Path, offer: Offer) -> None:
    """Make an environment beside the one in use, and lead the commands to it once it runs."""
    made = places.draft(prefix, str(offer.version))
    try:
        said(sys.executable, "-m", "venv", made)
        pip = (made / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        said(
            *pip,
            *offer.options,
            _as_pip_takes_it(offer.requirement),
            more=_constrained(offer, "PIP_CONSTRAINT"),
        )
        check(made, offer)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    places.lead_to(made)


def _as_pip_takes_it(requirement: str) -> str:
    """Python 3.11 brings a pip that takes no address without a host, such as file:///..., after a name."""
    name, found, address = requirement.partition(" @ git+")
    return f"git+{address}#egg={name}" if found and name == about.DISTRIBUTION else requirement


def _pipx(environment: Path, offer: Offer, folder: Path) -> None:
    # PIPX_HOME/venvs/history-lineage
    more = {"PIPX_HOME": str(environment.parent.parent), "PIPX_BIN_DIR": str(folder)}
    passed = [f"--pip-args={shlex.join(offer.options)}"] if offer.options else []
    more |= _constrained(offer, "PIP_CONSTRAINT")
    said("pipx", "install", "--force", f"--python={_python()}", *passed, offer.requirement, more=more)


def _uv(environment: Path, offer: Offer, folder: Path) -> None:
    more = {"UV_TOOL_DIR": str(environment.parent), "UV_TOOL_BIN_DIR": str(folder)}
    more |= _constrained(offer, "UV_CONSTRAINT")
    words = ("uv", "tool", "install", "--quiet", "--force", "--reinstall", f"--python={_python()}")
    said(*words, *offer.options, offer.requirement, more=more)


def _constrained(offer: Offer, variable: str) -> Mapping[str, str]:
    """The versions that a folder was tested with, where the source is one that says them."""
    constraints = Path(offer.requirement) / "constraints.txt"
    return {variable: str(constraints)} if constraints.is_file() else {}


def _python() -> str:
    """The Python that this environment was made from."""
    return str(getattr(sys, "_base_executable", sys.executable))
