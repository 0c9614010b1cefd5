"""Other programs, run to their end, and what they said when they failed.

Which versions a source offers, and what an installer is to be told of one.

Only the receipt's source is asked: `lineage` is another project's name in the public package index, so that nothing
is ever looked for under it, and no index at all unless the receipt names one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from serve import config
from serve.update.receipt import Receipt, Source
from stores.errors import LineageError

# The end of what a program says, which mostly says why it failed.
REPORTED_LINES: Final = 12


class ProgramFailed(LineageError):
    """A program that is needed is missing, or did not do its work."""


def said(*command: str | Path, more: Mapping[str, str] | None = None, given: str = "") -> str:
    """What a program prints; ProgramFailed, with its last words, when it fails."""
    words: Sequence[str] = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            env=os.environ | dict(more or {}),
            input=given,
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # git's tags may be any bytes
            check=False,
        )
    except OSError as error:
        raise ProgramFailed(f"`{words[0]}` could not be run: {error.strerror}.") from error
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-REPORTED_LINES:]
        raise ProgramFailed("\n  ".join([f"`{' '.join(words)}` failed:", *last]))
    return done.stdout


# git asks for no password here, and takes no transport that runs a program of the address's choosing.
QUIET_GIT: Final = {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh"}
_TAG: Final = re.compile(r"\trefs/tags/(v?(\d[^\s^]*))$", re.MULTILINE)


class SourceFailed(LineageError):
    """The source is gone, or offers nothing."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A version, what the installer is told of it, and with which further options."""

    version: Version
    requirement: str
    options: tuple[str, ...] = ()


def newest(receipt: Receipt, *, prerelease: bool) -> Offer:
    """The newest version that the source offers; a pre-release only where that is wished."""
    match receipt.source.kind:
        case "directory":
            offers = [_in_directory(Path(receipt.source.location))]
        case "wheels":
            offers = _wheels(Path(receipt.source.location))
        case "git":
            offers = _in_git(receipt.source)
        case "index":
            offers = _in_index(receipt, prerelease=prerelease)
    allowed = [offer for offer in offers if prerelease or not offer.version.is_prerelease]
    if allowed:
        return max(allowed, key=lambda offer: offer.version)
    raise SourceFailed(
        f"There is no version of {config.DISTRIBUTION} in {receipt.source}.",
        hint="`--prerelease` takes pre-releases too."
        if offers
        else "Install from another source with install.sh.",
    )


def declared(project: Path) -> Version:
    """The version that a folder's pyproject.toml declares, once it is sure that the project is this one."""
    try:
        table = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        name, version = table["name"], Version(table["version"])
    except (OSError, ValueError, KeyError) as error:
        raise SourceFailed(
            f"{project} has no pyproject.toml that says a version.",
            hint="Where is it now? Install from there with install.sh.",
        ) from error
    if name != config.DISTRIBUTION:
        raise SourceFailed(f"{project} holds {name}, not {config.DISTRIBUTION}.", hint="Nothing was changed.")
    return version


def _in_directory(project: Path) -> Offer:
    return Offer(declared(project), str(project))


def _wheels(folder: Path) -> list[Offer]:
    if not folder.is_dir():
        raise SourceFailed(f"{folder} is gone.", hint="Where is it now? Install from there with install.sh.")
    # What the wheel needs may lie beside it.
    options = (f"--find-links={folder}",)
    return [
        Offer(version, str(file), options) for file in folder.glob("*.whl") if (version := _version_of(file))
    ]


def _version_of(wheel: Path) -> Version | None:
    try:
        name, version, _, _ = parse_wheel_filename(wheel.name)
    except InvalidWheelFilename:
        return None
    return version if name == config.DISTRIBUTION else None


def _in_git(source: Source) -> list[Offer]:
    """The tags that are versions; the branch, or the default one, where there are none or one was asked for."""
    tags = "" if source.ref else said("git", "ls-remote", "--tags", "--", source.location, more=QUIET_GIT)
    versions = {tag: parsed for tag, text in _TAG.findall(tags) if (parsed := _parsed(text))}
    if versions:
        return [Offer(version, _requirement(source, tag)) for tag, version in versions.items()]
    branch = [f"--branch={source.ref}"] if source.ref else []
    with tempfile.TemporaryDirectory(prefix="lineage-update-") as folder:
        said("git", "clone", "--quiet", "--depth=1", *branch, "--", source.location, folder, more=QUIET_GIT)
        return [Offer(declared(Path(folder)), _requirement(source, source.ref))]


def _requirement(source: Source, ref: str) -> str:
    return f"{config.DISTRIBUTION} @ git+{source.location}" + (f"@{ref}" if ref else "")


def _in_index(receipt: Receipt, *, prerelease: bool) -> list[Offer]:
    """What the installer itself finds in the index."""
    index = [f"--index-url={receipt.source.location}"] if receipt.source.location else []
    before = ["--pre"] if prerelease else []
    asked = ("index", "versions", config.DISTRIBUTION, *before, *index)
    match receipt.installer:
        case "pip":
            text = said(sys.executable, "-m", "pip", *asked)
        case "pipx":
            text = _said_by_pipx(asked, index, prerelease=prerelease)
        case "uv":
            text = _said_by_uv(index, prerelease=prerelease)
    return [
        Offer(version, f"{config.DISTRIBUTION}=={version}", tuple(index)) for version in sorted(_listed(text))
    ]


def _said_by_pipx(asked: Sequence[str], index: Sequence[str], *, prerelease: bool) -> str:
    try:
        return said("pipx", "runpip", config.DISTRIBUTION, *asked)
    except ProgramFailed:
        # Where there is uv, pipx may leave pip's work to it, which has not all of pip's words.
        if shutil.which("uv") is None:
            raise
        return _said_by_uv(index, prerelease=prerelease)


def _said_by_uv(index: Sequence[str], *, prerelease: bool) -> str:
    allow = ["--prerelease=allow"] if prerelease else []
    words = ("uv", "pip", "compile", "-", "--no-deps", "--no-header", *allow, *index)
    return said(*words, given=config.DISTRIBUTION)


def _listed(text: str) -> Iterable[Version]:
    """The versions in `history-lineage (0.2)`, `Available versions: 0.2, 0.1`, `history-lineage==0.2`."""
    name = re.escape(config.DISTRIBUTION)
    found = re.findall(rf"^{name}(?: \(|==)([^)\s]+)", text, re.MULTILINE)
    rest = re.findall(r"^Available versions: (.+)$", text, re.MULTILINE)
    words = [*found, *(word.strip() for line in rest for word in line.split(","))]
    return {parsed for word in words if (parsed := _parsed(word))}


def _parsed(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None
