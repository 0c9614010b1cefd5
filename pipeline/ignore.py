"""Which paths stay out of the index: built-in defaults < git attributes < `.lineageignore`.

The last layer that says anything about a path decides, so `!package-lock.json` in `.lineageignore`
brings back what a default leaves out. Attributes are what git itself says they are for the person who
indexes: committed ones, those of the clone, and the person's own (`core.attributesFile`).
"""

from __future__ import annotations

import os
import re
from codecs import BOM_UTF8
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pathspec import GitIgnoreSpec

from pipeline.git import git_dir
from pipeline.git.repository import Repository, UnreadableObject, open_repository
from stores.errors import LineageError

IGNORE_FILE: Final = ".lineageignore"
ATTRIBUTES: Final = ("linguist-generated", "linguist-vendored")
# Verdicts kept: more than the paths of most histories, and no more than some megabytes of them.
REMEMBERED_PATHS: Final = 50_000

# What programs write and people do not read: what the specification names, and "similar". Kept short: a default that
# hides somebody's work is worse than one that lets a lock file in.
DEFAULTS: Final = (
    # dependencies copied in
    ".yarn/",
    "bower_components/",
    "node_modules/",
    "vendor/",
    # lock files
    "bun.lock",
    "bun.lockb",
    "Cargo.lock",
    "composer.lock",
    "deno.lock",
    "flake.lock",
    "Gemfile.lock",
    "go.sum",
    "gradle.lockfile",
    "mix.lock",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "Package.resolved",
    "packages.lock.json",
    "pdm.lock",
    "Pipfile.lock",
    "pixi.lock",
    "pnpm-lock.yaml",
    "Podfile.lock",
    "poetry.lock",
    "pubspec.lock",
    "uv.lock",
    "yarn.lock",
    # built or generated
    "*.css.map",
    "*.js.map",
    "*.min.css",
    "*.min.js",
    "*.pb.go",
    "*_pb2.py",
    "*_pb2_grpc.py",
    "__pycache__/",
    "dist/",
    "target/",
)


class UnreadableRules(LineageError):
    """An ignore file is there and cannot be read: what it leaves out, secrets maybe, must not be indexed for that."""

    def __init__(self, file: Path, reason: str) -> None:
        super().__init__(f"{file} cannot be read: {reason}.", hint="Make it readable, or move it away.")


@dataclass(slots=True)
class IgnoreRules:
    """The rules of one repository; travels to workers, where it reads attributes for itself."""

    door: Path  # what opens the repository
    lines: tuple[str, ...]  # of `.lineageignore`
    has_attributes: bool  # whether any attribute file speaks of generated or vendored files
    _verdicts: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)
    _defaults: GitIgnoreSpec | None = field(default=None, repr=False, compare=False)
    _own: GitIgnoreSpec | None = field(default=None, repr=False, compare=False)
    _repository: Repository | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, repository: Repository) -> IgnoreRules:
        """The rules as they stand in the work tree; in a bare repository, at HEAD."""
        return cls(repository.door, _lines(repository), _speaks_of_them(repository))

    def ignored(self, path: str) -> bool:
        """Whether a path is left out of the index."""
        verdict = self._verdicts.get(path)
        if verdict is None:
            if len(self._verdicts) >= REMEMBERED_PATHS:
                self._verdicts.clear()
            verdict = self._verdicts[path] = self._decide(path)
        return verdict

    def __reduce__(self) -> tuple[type[IgnoreRules], tuple[Path, tuple[str, ...], bool]]:
        return type(self), (self.door, self.lines, self.has_attributes)

    def _decide(self, path: str) -> bool:
        if self._defaults is None or self._own is None:
            self._defaults, self._own = _spec(DEFAULTS), _spec(self.lines)
        own = self._own.check_file(path).include
        if own is not None:
            return own
        attribute = self._attribute(path) if self.has_attributes else None
        return bool(self._defaults.check_file(path).include) if attribute is None else attribute

    def _attribute(self, path: str) -> bool | None:
        """What the attributes say: one that is set leaves the path out, one that is unset keeps it."""
        if self._repository is None:
            self._repository = open_repository(self.door)
        said = [_truth(self._repository.attribute(path, name)) for name in ATTRIBUTES]
        return True if True in said else (False if False in said else None)


def _truth(value: bool | str | None) -> bool | None:
    return value.lower() not in ("false", "0", "no") if isinstance(value, str) else value


def _spec(lines: tuple[str, ...]) -> GitIgnoreSpec:
    return GitIgnoreSpec.from_lines(lines, backend="simple")


def patterns(content: bytes) -> tuple[str, ...]:
    """The lines of an ignore file that say something, as git takes them: a line ends at a line feed alone."""
    text = content.removeprefix(BOM_UTF8).decode("utf-8", errors="replace")
    return tuple(line for line in (line.removesuffix("\r") for line in text.split("\n")) if _says(line))


def _says(line: str) -> bool:
    try:
        return any(pattern.include is not None for pattern in _spec((line,)).patterns)
    # `!` alone, a backslash at the end, or `[9-0]`, which git takes for no match.
    except (ValueError, re.error):
        return False


def _lines(repository: Repository) -> tuple[str, ...]:
    file = repository.root / IGNORE_FILE
    try:
        if not repository.is_bare and os.path.lexists(file) and not file.is_file():
            raise UnreadableRules(file, "it is neither a file nor a link to one")
        return patterns(_current(repository, IGNORE_FILE))
    except OSError as error:
        raise UnreadableRules(file, error.strerror or str(error)) from error


def _current(repository: Repository, name: str) -> bytes:
    """A file's content in the work tree, or at HEAD where there is no work tree; nothing where there is no file."""
    if repository.is_bare:
        return repository.read_at_head(name) or b""
    return git_dir.content(repository.root / name)


def _speaks_of_them(repository: Repository) -> bool:
    """Whether asking for attributes, path by path, can say anything."""
    names = {git_dir.ATTRIBUTE_FILE, *_attribute_files(repository)}
    if any(b"linguist-" in content for content in repository.own_attributes()):
        return True
    return any(b"linguist-" in _said(repository, name) for name in names)


def _said(repository: Repository, name: str) -> bytes:
    try:
        return _current(repository, name)
    except OSError:  # git warns of one that it cannot read, and goes on
        return b""


def _attribute_files(repository: Repository) -> list[str]:
    head = repository.head()
    try:
        files = repository.tree_files(head) if head else []
    except UnreadableObject:
        return []
    return [path for path, _ in files if path.endswith("/" + git_dir.ATTRIBUTE_FILE)]
