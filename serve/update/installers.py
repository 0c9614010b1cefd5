"""`lineage update` command: finds the newest version of the installed source and runs pip, pipx or uv.

With pip, a new environment is created next to the one in use and activated once it runs (see `receipt`). pipx and uv
change their environment in place, so it is backed up first and restored on failure. A killed process restores nothing:
the command that restores it is printed beforehand.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from packaging.version import Version

from serve import config
from serve.errors import Cancelled
from serve.update import receipt, sources
from serve.update.receipt import Receipt, link_commands
from serve.update.sources import Offer, ProgramFailed, run_program
from stores import locks
from stores.errors import LineageError
from stores.locks import Deadline

LOCK_FILE: Final = ".lineage-update.lock"
BACKUP_SUFFIX: Final = ".before-update"
BROKEN_SUFFIX: Final = ".broken-update"
# Larger files of a backup are hard links: installers replace files and never write into them. Some small files are
# rewritten in place, so these are copied.
MAX_COPIED_BYTES: Final = 1 << 20
# Exit codes: UPDATE_AVAILABLE if `--check` finds a newer version, UP_TO_DATE otherwise.
UPDATE_AVAILABLE: Final = 2
UP_TO_DATE: Final = 0


class UpdateFailed(LineageError):
    """The new version could not be installed; the old one is unchanged."""


@dataclass(frozen=True, slots=True)
class UpdateOptions:
    """Options of `lineage update`."""

    check: bool = False
    force: bool = False
    prerelease: bool = False


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """Message to print and exit code of `lineage update`."""

    message: str
    exit_code: int = UP_TO_DATE


def update(options: UpdateOptions, report: Callable[[str], None]) -> UpdateResult:
    """Install the newest version that the source of this installation offers, or only check for one.

    `report` is called with notes for the user before anything is changed in place.
    """
    commands_dir, installed = receipt.find_receipt()
    offer = sources.find_newest(installed, prerelease=options.prerelease)
    current = Version(config.version())  # not the receipt's, which a killed update has not rewritten
    if options.check and offer.version > current:
        return UpdateResult(
            f"lineage {offer.version} is available in {installed.source}; installed is {current}. "
            "`lineage update` installs it.",
            UPDATE_AVAILABLE,
        )
    if options.check or (offer.version <= current and not options.force):
        return UpdateResult(_no_update_message(installed, current, offer))
    with locks.exclusive_lock(commands_dir / LOCK_FILE, Deadline.after(0, _already_running)):
        _install_or_fail(installed, offer, commands_dir, report)
        updated = Receipt.create(
            str(offer.version), installed.installer, installed.source, Path(installed.environment)
        )
        receipt.write_receipt(commands_dir, replace(updated, commands=installed.commands))
    action = (
        "Reinstalled" if offer.version == current else "Updated" if offer.version > current else "Downgraded"
    )
    return UpdateResult(
        f"{action}: lineage {current} -> {offer.version}, from {installed.source}, with {installed.installer}."
    )


def _no_update_message(installed: Receipt, current: Version, offer: Offer) -> str:
    if offer.version == current:
        return f"lineage {current} is up to date with {installed.source}."
    return (
        f"lineage {current} is newer than {offer.version} in {installed.source}; "
        "`lineage update --force` installs the older version."
    )


def _install_or_fail(
    installed: Receipt, offer: Offer, commands_dir: Path, report: Callable[[str], None]
) -> None:
    """Install the offer; raise UpdateFailed or Cancelled with the old version unchanged."""
    current = config.version()

    def report_restore_command(command: str) -> None:
        report(
            f"If this update is killed and lineage no longer runs, this command restores {current}:\n  {command}"
        )

    try:
        install(installed, offer, commands_dir, report_restore_command)
    except LineageError as error:
        raise UpdateFailed(
            f"lineage {offer.version} was not installed; {current} still works. {error.message}",
            hint="Fix the problem, then run `lineage update` again.",
        ) from error
    except KeyboardInterrupt as error:
        raise Cancelled(f"Interrupted: lineage {current} still works.") from error


def _already_running(_seconds: float) -> LineageError:
    return UpdateFailed("Another `lineage update` is running.", hint="Wait until it has finished.")


def install(
    installed: Receipt, offer: Offer, commands_dir: Path, report_restore_command: Callable[[str], None]
) -> None:
    """Install the offer with the installer of the receipt, and its commands into `commands_dir`.

    For installers that work in place, `report_restore_command` is called first with a shell command that undoes it.
    """
    environment = Path(installed.environment)
    if installed.installer == "pip":
        _install_with_pip(environment, offer)
        link_commands(environment, commands_dir)
        return
    with restore_on_failure(environment, report_restore_command):
        if installed.installer == "pipx":
            _install_with_pipx(environment, offer, commands_dir)
        else:
            _install_with_uv(environment, offer, commands_dir)
        _check_installed_version(environment, offer)


@contextmanager
def restore_on_failure(directory: Path, report_restore_command: Callable[[str], None]) -> Iterator[None]:
    """Let the body change a directory, and restore it if the body fails or is interrupted.

    `report_restore_command` is called first with a shell command that restores it after a kill.
    """
    backup = directory.with_name(directory.name + BACKUP_SUFFIX)
    shutil.rmtree(backup, ignore_errors=True)  # left by an update that was killed
    shutil.copytree(directory, backup, symlinks=True, copy_function=_link_or_copy)
    old, new = shlex.quote(str(directory)), shlex.quote(str(backup))
    report_restore_command(f"test -d {new} && rm -rf {old} && mv {new} {old}")
    try:
        yield
    except BaseException:
        # Rename first and delete afterwards: the old directory is back at once.
        broken = directory.with_name(directory.name + BROKEN_SUFFIX)
        shutil.rmtree(broken, ignore_errors=True)
        if directory.exists():
            directory.rename(broken)
        backup.rename(directory)
        shutil.rmtree(broken, ignore_errors=True)
        raise
    shutil.rmtree(backup, ignore_errors=True)


def _link_or_copy(source: str, target: str) -> str:
    if Path(source).stat().st_size > MAX_COPIED_BYTES:
        try:
            os.link(source, target)
        except OSError:  # the file system has no hard links
            return str(shutil.copy2(source, target))
        return target
    return str(shutil.copy2(source, target))


def _install_with_pip(prefix: Path, offer: Offer) -> None:
    """Create a new environment next to the one in use, and activate it once it runs."""
    environment = receipt.new_environment_path(prefix, str(offer.version))
    pip = (environment / "bin" / "python", "-m", "pip")
    options = ("--quiet", "--disable-pip-version-check", *offer.options)
    try:
        run_program(sys.executable, "-m", "venv", environment)
        run_program(
            *pip,
            "install",
            *options,
            _pip_requirement(offer.requirement),
            variables=_constraint_variables(offer, "PIP_CONSTRAINT"),
        )
        _check_installed_version(environment, offer)
    except BaseException:
        shutil.rmtree(environment, ignore_errors=True)
        raise
    receipt.activate_environment(environment)


def _pip_requirement(requirement: str) -> str:
    """Rewrite a git requirement for the pip of Python 3.11, which rejects `NAME @ git+file:///...`."""
    name, found, address = requirement.partition(" @ git+")
    return f"git+{address}#egg={name}" if found and name == config.DISTRIBUTION else requirement


def _install_with_pipx(environment: Path, offer: Offer, commands_dir: Path) -> None:
    # The environment is PIPX_HOME/venvs/history-lineage.
    variables = {
        "PIPX_HOME": str(environment.parent.parent),
        "PIPX_BIN_DIR": str(commands_dir),
        **_constraint_variables(offer, "PIP_CONSTRAINT"),
    }
    pip_args = [f"--pip-args={shlex.join(offer.options)}"] if offer.options else []
    command = ("pipx", "install", "--force", f"--python={_base_python()}", *pip_args, offer.requirement)
    run_program(*command, variables=variables)


def _install_with_uv(environment: Path, offer: Offer, commands_dir: Path) -> None:
    variables = {
        "UV_TOOL_DIR": str(environment.parent),
        "UV_TOOL_BIN_DIR": str(commands_dir),
        **_constraint_variables(offer, "UV_CONSTRAINT"),
    }
    command = ("uv", "tool", "install", "--quiet", "--force", "--reinstall", f"--python={_base_python()}")
    run_program(*command, *offer.options, offer.requirement, variables=variables)


def _check_installed_version(environment: Path, offer: Offer) -> None:
    """Raise ProgramFailed unless the installed program runs and has the offered version."""
    output = run_program(environment / "bin" / "lineage", "--version").strip()
    if output != f"lineage {offer.version}":
        raise ProgramFailed(f"The installed program prints `{output}`, not `lineage {offer.version}`.")


def _constraint_variables(offer: Offer, variable: str) -> Mapping[str, str]:
    """Return the installer's variable for the `constraints.txt` of a source directory, if it has one."""
    constraints = Path(offer.requirement) / "constraints.txt"
    return {variable: str(constraints)} if constraints.is_file() else {}


def _base_python() -> str:
    """Return the Python that this environment was created with."""
    return str(getattr(sys, "_base_executable", sys.executable))
