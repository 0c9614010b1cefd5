"""Versions that the source of an installation offers, and the requirement of each for the installer.

Versions are looked up only in the source that the receipt names, and only by the name of the distribution, because
the name `lineage` belongs to another project in the public package index.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from serve import config
from serve.update.receipt import Receipt, Source
from stores.errors import LineageError

# Maximum number of lines of a failed program's output in an error: the last lines, which usually have the reason.
MAX_REPORTED_LINES: Final = 12
# With these variables, git asks for no passwords, and uses no transport that runs a program named in the address.
GIT_ENVIRONMENT: Final = {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh"}
# Extra with the exact versions of all dependencies that the release was tested with, and a requirement with it.
PINNED_EXTRA: Final = "pinned"
PINNED_DISTRIBUTION: Final = f"{config.DISTRIBUTION}[{PINNED_EXTRA}]"
# Line of `git ls-remote` with a version tag: `SHA<tab>refs/tags/v1.2`. Groups: tag and version.
_VERSION_TAG: Final = re.compile(r"\trefs/tags/(v?(\d[^\s^]*))$", re.MULTILINE)


class ProgramFailed(LineageError):
    """Error for a program that could not be run or failed."""


class SourceFailed(LineageError):
    """Error for a source that does not exist or offers no version."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Version that a source offers, with the requirement and options to pass to the installer.

    `is_fixed`: False if the source may change without a new version, as a branch does.
    """

    version: Version
    requirement: str
    options: tuple[str, ...] = ()
    is_fixed: bool = True

    @property
    def pinned_requirement(self) -> str:
        """Requirement with the extra `pinned`. The requirement is NAME==VERSION, NAME @ git+ADDRESS or a path."""
        name = config.DISTRIBUTION
        if self.requirement.startswith(name):
            return PINNED_DISTRIBUTION + self.requirement.removeprefix(name)
        return f"{self.requirement}[{PINNED_EXTRA}]"


def find_newest(receipt: Receipt, *, prerelease: bool) -> Offer:
    """Return the newest version that the source offers, without pre-releases unless `prerelease` is set.

    Raise SourceFailed if the source offers none or cannot be read.
    """
    try:
        offers = _list_offers(receipt, prerelease=prerelease)
    except ProgramFailed as error:
        hint = f"Check that {receipt.source} can be reached. If it has moved, install from there with install.sh."
        raise SourceFailed(error.message, hint=error.hint or hint) from error
    allowed_offers = [offer for offer in offers if prerelease or not offer.version.is_prerelease]
    if allowed_offers:
        return max(allowed_offers, key=lambda offer: offer.version)
    raise SourceFailed(
        f"There is no {'release' if offers else 'version'} of {config.DISTRIBUTION} in {receipt.source}.",
        hint="Run `lineage update --prerelease` to include pre-releases."
        if offers
        else "Install from another source with install.sh.",
    )


def _list_offers(receipt: Receipt, *, prerelease: bool) -> list[Offer]:
    match receipt.source.kind:
        case "directory":
            return [_build_directory_offer(Path(receipt.source.location))]
        case "wheels":
            return _list_wheel_offers(Path(receipt.source.location))
        case "git":
            return _list_git_offers(receipt.source)
        case "index":
            return _list_index_offers(receipt, prerelease=prerelease)


def run_program(*command: str | Path, variables: Mapping[str, str] | None = None, stdin: str = "") -> str:
    """Run a program and return its output; raise ProgramFailed with the end of its output if it fails.

    `variables` are added to the environment.
    """
    words = [str(word) for word in command]
    try:
        process = subprocess.run(
            words,
            env=os.environ | dict(variables or {}),
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # git tags may be any bytes
            check=False,
        )
    except OSError as error:
        raise ProgramFailed(
            f"`{words[0]}` could not be run: {error.strerror}.",
            hint="Install it, or add its directory to PATH.",
        ) from error
    if process.returncode:
        output = process.stderr.strip() or process.stdout.strip()
        last_lines = output.splitlines()[-MAX_REPORTED_LINES:]
        raise ProgramFailed("\n  ".join([f"`{' '.join(words)}` failed:", *last_lines]))
    return process.stdout


def read_declared_version(project: Path) -> Version:
    """Return the version in a project's pyproject.toml. Raise SourceFailed if it has none or is of another project."""
    try:
        table = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        name, version = table["name"], Version(table["version"])
    except (OSError, ValueError, KeyError) as error:
        raise SourceFailed(
            f"{project} has no pyproject.toml with a version.",
            hint="If the project has moved, install from its new path with install.sh.",
        ) from error
    if name != config.DISTRIBUTION:
        raise SourceFailed(
            f"{project} contains {name}, not {config.DISTRIBUTION}.", hint="Nothing was changed."
        )
    return version


def _build_directory_offer(project: Path) -> Offer:
    return Offer(read_declared_version(project), str(project), is_fixed=False)


def _list_wheel_offers(directory: Path) -> list[Offer]:
    if not directory.is_dir():
        raise SourceFailed(
            f"{directory} does not exist.",
            hint="If it has moved, install from its new path with install.sh.",
        )
    # The wheel's dependencies may be in the same directory.
    options = (f"--find-links={directory}",)
    return [
        Offer(version, str(file), options)
        for file in directory.glob("*.whl")
        if (version := _parse_wheel_version(file))
    ]


def _parse_wheel_version(wheel: Path) -> Version | None:
    """Return the version of a wheel of this project, None for another wheel."""
    try:
        name, version, _, _ = parse_wheel_filename(wheel.name)
    except InvalidWheelFilename:
        return None
    return version if name == config.DISTRIBUTION else None


def _list_git_offers(source: Source) -> list[Offer]:
    """Return an offer for the ref; without a ref, for each version tag; without such tags, for the default branch."""
    if not source.ref:
        tags = run_program("git", "ls-remote", "--tags", "--", source.location, variables=GIT_ENVIRONMENT)
        offers = [
            Offer(version, _format_git_requirement(source, tag))
            for tag, version_text in _VERSION_TAG.findall(tags)
            if (version := _parse_version(version_text))
        ]
        if offers:
            return offers
    branch_option = [f"--branch={source.ref}"] if source.ref else []
    with tempfile.TemporaryDirectory(prefix="lineage-update-") as clone:
        command = ("git", "clone", "--quiet", "--depth=1", *branch_option, "--", source.location, clone)
        run_program(*command, variables=GIT_ENVIRONMENT)
        version, requirement = read_declared_version(Path(clone)), _format_git_requirement(source, source.ref)
        return [Offer(version, requirement, is_fixed=False)]


def _format_git_requirement(source: Source, ref: str) -> str:
    return f"{config.DISTRIBUTION} @ git+{source.location}" + (f"@{ref}" if ref else "")


def _list_index_offers(receipt: Receipt, *, prerelease: bool) -> list[Offer]:
    """Return an offer for each version that pip finds in the package index, or for the newest one that uv finds."""
    index_option = [f"--index-url={receipt.source.location}"] if receipt.source.location else []
    pip_arguments = (
        "index",
        "versions",
        config.DISTRIBUTION,
        *(["--pre"] if prerelease else []),
        *index_option,
    )
    match receipt.installer:
        case "pip":
            text = run_program(sys.executable, "-m", "pip", *pip_arguments)
        case "pipx":
            text = _list_versions_with_pipx(pip_arguments, index_option, prerelease=prerelease)
        case "uv":
            text = _find_newest_with_uv(index_option, prerelease=prerelease)
    versions = sorted(_parse_listed_versions(text))
    return [Offer(version, f"{config.DISTRIBUTION}=={version}", tuple(index_option)) for version in versions]


def _list_versions_with_pipx(
    pip_arguments: Sequence[str], index_option: Sequence[str], *, prerelease: bool
) -> str:
    try:
        return run_program("pipx", "runpip", config.DISTRIBUTION, *pip_arguments)
    except ProgramFailed:
        # With uv installed, pipx may use it in place of pip, and uv has no `index versions`.
        if shutil.which("uv") is None:
            raise
        return _find_newest_with_uv(index_option, prerelease=prerelease)


def _find_newest_with_uv(index_option: Sequence[str], *, prerelease: bool) -> str:
    """Return the output of uv, which names the newest version."""
    prerelease_option = ["--prerelease=allow"] if prerelease else []
    command = ("uv", "pip", "compile", "-", "--no-deps", "--no-header", *prerelease_option, *index_option)
    return run_program(*command, stdin=config.DISTRIBUTION)


def _parse_listed_versions(text: str) -> set[Version]:
    """Return the versions in the output of pip or uv.

    pip prints `history-lineage (0.2)` and `Available versions: 0.2, 0.1`, uv prints `history-lineage==0.2`.
    """
    name = re.escape(config.DISTRIBUTION)
    words = re.findall(rf"^{name}(?: \(|==)([^)\s]+)", text, re.MULTILINE)
    for line in re.findall(r"^Available versions: (.+)$", text, re.MULTILINE):
        words += [word.strip() for word in line.split(",")]
    return {version for word in words if (version := _parse_version(word))}


def _parse_version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None
