"""Command `lineage update`: installation of the newest version with pip, pipx or uv.

The install receipt names the installer and the source of new versions (see `receipt`). With pip, a new environment is
created next to the one in use. It is activated only after `lineage --version` has run in it. pipx and uv change their
environment in place, so it is backed up first and restored on failure. A killed process restores nothing, so a message
before the change names the command that restores the environment.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
# A backup copies files up to this size, because installers may rewrite them in place. It only links larger files,
# which installers replace.
MAX_COPIED_BYTES: Final = 1 << 20
# Exit codes of `--check`: a newer version is available, or none is. A successful update has the code UP_TO_DATE, too.
UPDATE_AVAILABLE: Final = 2
UP_TO_DATE: Final = 0


class UpdateFailed(LineageError):
    """Error for an update that could not be made. The old version is unchanged."""


@dataclass(frozen=True, slots=True)
class UpdateOptions:
    """Options of `lineage update`.

    `check`: only look for a newer version. `force`: install even a version that is not newer. `prerelease`: include
    pre-releases.
    """

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

    `report` is called with a note for the user before pipx or uv changes the environment in place.
    """
    commands_dir, install_receipt = receipt.find_receipt()
    offer = sources.find_newest(install_receipt, prerelease=options.prerelease)
    # The version in the receipt is outdated if an update was killed before it wrote the receipt.
    current_version = Version(config.read_version())
    if options.check and offer.version > current_version:
        return UpdateResult(
            f"lineage {offer.version} is available in {install_receipt.source}. "
            f"Version {current_version} is installed. Run `lineage update` to update.",
            UPDATE_AVAILABLE,
        )
    if options.check or (offer.version <= current_version and not options.force):
        return UpdateResult(_format_no_update(install_receipt, current_version, offer))
    with locks.acquire_exclusive_lock(
        commands_dir / LOCK_FILE, Deadline.after(0, _create_already_running_error)
    ):
        _install_or_fail(install_receipt, offer, commands_dir, report)
        new_receipt = Receipt.create(
            str(offer.version),
            install_receipt.installer,
            install_receipt.source,
            Path(install_receipt.environment),
        )
        receipt.write_receipt(commands_dir, replace(new_receipt, commands=install_receipt.commands))
    if offer.version > current_version:
        action = "Updated"
    else:
        action = "Reinstalled" if offer.version == current_version else "Downgraded"
    return UpdateResult(
        f"{action}: lineage {current_version} -> {offer.version}, from {install_receipt.source}, "
        f"with {install_receipt.installer}."
    )


def _format_no_update(install_receipt: Receipt, current_version: Version, offer: Offer) -> str:
    if offer.version == current_version:
        hint = " Only versions are compared. `lineage update --force` installs changes that have the same version."
        return f"lineage {current_version} is up to date with {install_receipt.source}.{'' if offer.is_fixed else hint}"
    return (
        f"lineage {current_version} is newer than {offer.version} in {install_receipt.source}. "
        "Run `lineage update --force` to install the older version."
    )


def _install_or_fail(
    install_receipt: Receipt, offer: Offer, commands_dir: Path, report: Callable[[str], None]
) -> None:
    """Install the offer. On failure the old version is unchanged: raise UpdateFailed, or Cancelled after Ctrl-C."""
    current_version = config.read_version()

    def report_restore_command(command: str) -> None:
        report(
            "If this update is killed and lineage no longer runs, this command restores "
            f"{current_version}:\n  {command}"
        )

    try:
        install(install_receipt, offer, commands_dir, report_restore_command)
    except LineageError as error:
        raise UpdateFailed(
            f"lineage {offer.version} was not installed; {current_version} still works. {error.message}",
            hint="Fix the problem, then run `lineage update` again.",
        ) from error
    except KeyboardInterrupt as error:
        raise Cancelled(f"Interrupted. lineage {current_version} still works.") from error


def _create_already_running_error(_seconds: float) -> LineageError:
    return UpdateFailed("Another `lineage update` is running.", hint="Wait until it has finished.")


def install(
    install_receipt: Receipt, offer: Offer, commands_dir: Path, report_restore_command: Callable[[str], None]
) -> None:
    """Install the offer with the installer of the receipt. Link the installed commands into `commands_dir`.

    For pipx and uv, `report_restore_command` is called first with a shell command that restores the old version.
    """
    if install_receipt.installer == "pip":
        prefix = Path(install_receipt.environment)
        _install_with_pip(prefix, offer)
        link_commands(prefix / receipt.CURRENT, commands_dir)
        return
    environment = Path(install_receipt.environment)
    with restore_on_failure(environment, commands_dir, report_restore_command):
        if install_receipt.installer == "pipx":
            _install_with_pipx(environment, offer, commands_dir)
        else:
            _install_with_uv(environment, offer, commands_dir)
        _check_installed_version(environment, offer)


@contextmanager
def restore_on_failure(
    environment: Path, commands_dir: Path, report_restore_command: Callable[[str], None]
) -> Iterator[None]:
    """Restore the environment, and the links to its commands, if the `with` statement fails or is interrupted.

    The links are restored because uv deletes them before it installs. `report_restore_command` is called first with a
    shell command that restores environment and links if this process is killed.
    """
    backup = environment.with_name(environment.name + BACKUP_SUFFIX)
    shutil.rmtree(backup, ignore_errors=True)  # a killed update leaves a backup
    shutil.copytree(environment, backup, symlinks=True, copy_function=_link_or_copy)
    quoted_environment, quoted_backup = shlex.quote(str(environment)), shlex.quote(str(backup))
    commands = shlex.join(str(environment / "bin" / command) for command in receipt.COMMANDS)
    report_restore_command(
        f"test -d {quoted_backup} && rm -rf {quoted_environment} && mv {quoted_backup} {quoted_environment} && "
        f"ln -sf {commands} {shlex.quote(str(commands_dir))}"
    )
    try:
        yield
    except BaseException:
        # Renaming is faster than deleting, so the broken environment is deleted only after the backup is restored.
        broken_environment = environment.with_name(environment.name + BROKEN_SUFFIX)
        shutil.rmtree(broken_environment, ignore_errors=True)
        if environment.exists():
            environment.rename(broken_environment)
        backup.rename(environment)
        link_commands(environment, commands_dir)
        shutil.rmtree(broken_environment, ignore_errors=True)
        raise
    shutil.rmtree(backup, ignore_errors=True)


def _link_or_copy(source: str, target: str) -> str:
    if Path(source).stat().st_size > MAX_COPIED_BYTES:
        with suppress(OSError):  # the file system has no hard links
            os.link(source, target)
            return target
    return str(shutil.copy2(source, target))


def _install_with_pip(prefix: Path, offer: Offer) -> None:
    """Create a new environment under `prefix`, and activate it after `lineage --version` has run in it."""
    environment = receipt.create_environment_path(prefix, str(offer.version))
    pip = (environment / "bin" / "python", "-m", "pip")
    options = ("--quiet", "--disable-pip-version-check", *offer.options)
    try:
        run_program(sys.executable, "-m", "venv", environment)
        run_program(
            *pip,
            "install",
            *options,
            _format_pip_requirement(offer.requirement),
            sources.PINNED_DISTRIBUTION,
        )
        _check_installed_version(environment, offer)
    except BaseException:
        shutil.rmtree(environment, ignore_errors=True)
        raise
    receipt.activate_environment(environment)


def _format_pip_requirement(requirement: str) -> str:
    """Rewrite a git requirement for the pip of Python 3.11, which rejects `NAME @ git+file:///...`.

    That pip also rejects `NAME[pinned] @ git+file:///...`, so the caller passes the extra as a second requirement.
    """
    name, separator, address = requirement.partition(" @ git+")
    return f"git+{address}#egg={name}" if separator and name == config.DISTRIBUTION else requirement


def _install_with_pipx(environment: Path, offer: Offer, commands_dir: Path) -> None:
    # The environment is PIPX_HOME/venvs/history-lineage.
    variables = {
        "PIPX_HOME": str(environment.parent.parent),
        "PIPX_BIN_DIR": str(commands_dir),
    }
    pip_args = [f"--pip-args={shlex.join(offer.options)}"] if offer.options else []
    command = ("pipx", "install", "--force", f"--python={_find_base_python()}", *pip_args)
    run_program(*command, offer.pinned_requirement, variables=variables)


def _install_with_uv(environment: Path, offer: Offer, commands_dir: Path) -> None:
    variables = {
        "UV_TOOL_DIR": str(environment.parent),
        "UV_TOOL_BIN_DIR": str(commands_dir),
    }
    command = (
        "uv",
        "tool",
        "install",
        "--quiet",
        "--force",
        "--reinstall",
        f"--python={_find_base_python()}",
    )
    run_program(*command, *offer.options, offer.pinned_requirement, variables=variables)


def _check_installed_version(environment: Path, offer: Offer) -> None:
    """Raise ProgramFailed if the installed program does not run, or has another version than the offered one."""
    output = run_program(environment / "bin" / "lineage", "--version").strip()
    if output != f"lineage {offer.version}":
        raise ProgramFailed(f"The installed program prints `{output}`, not `lineage {offer.version}`.")


def _find_base_python() -> str:
    """Return the path of the Python that the environment of this program was created with."""
    return str(getattr(sys, "_base_executable", sys.executable))
