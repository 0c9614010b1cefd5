"""Which paths stay out of the index: built-in defaults < git attributes < `.lineageignore`.

The last layer that says anything about a path decides, so `!package-lock.json` in `.lineageignore`
brings back what a default leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pathspec import GitIgnoreSpec

from pipeline.git.repository import Repository, UnreadableObject, open_repository

IGNORE_FILE: Final = ".lineageignore"
ATTRIBUTES: Final = ("linguist-generated", "linguist-vendored")
ATTRIBUTE_FILE: Final = ".gitattributes"
# Verdicts kept: more than the paths of most histories, and no more than some megabytes of them.
REMEMBERED_PATHS: Final = 50_000

# What programs write and people do not read. Kept short: a default that hides somebody's work is worse
# than one that lets a lock file in.
DEFAULTS: Final = (
    # dependencies copied in
    "node_modules/",
    "bower_components/",
    ".yarn/",
    "vendor/",
    # lock files
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "Cargo.lock",
    "poetry.lock",
    "pdm.lock",
    "uv.lock",
    "Pipfile.lock",
    "composer.lock",
    "Gemfile.lock",
    "go.sum",
    "gradle.lockfile",
    # built or generated
    "*.min.js",
    "*.min.css",
    "*.js.map",
    "*.css.map",
    "*.pb.go",
    "*_pb2.py",
    "*_pb2_grpc.py",
    "__pycache__/",
)


@dataclass(slots=True)
class IgnoreRules:
    """The rules of one repository; travels to workers, where it reads attributes for itself."""

    root: Path
    lines: tuple[str, ...]  # of `.lineageignore`
    has_attributes: bool  # whether any attribute file speaks of generated or vendored files
    _verdicts: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)
    _defaults: GitIgnoreSpec | None = field(default=None, repr=False, compare=False)
    _own: GitIgnoreSpec | None = field(default=None, repr=False, compare=False)
    _repository: Repository | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, repository: Repository) -> IgnoreRules:
        """The rules as they stand in the work tree; in a bare repository, at HEAD."""
        return cls(repository.root, _lines(repository), _speaks_of_them(repository))

    def ignored(self, path: str) -> bool:
        """Whether a path is left out of the index."""
        verdict = self._verdicts.get(path)
        if verdict is None:
            if len(self._verdicts) >= REMEMBERED_PATHS:
                self._verdicts.clear()
            verdict = self._verdicts[path] = self._decide(path)
        return verdict

    def __reduce__(self) -> tuple[type[IgnoreRules], tuple[Path, tuple[str, ...], bool]]:
        return type(self), (self.root, self.lines, self.has_attributes)

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
            self._repository = open_repository(self.root)
        said = [_truth(self._repository.attribute(path, name)) for name in ATTRIBUTES]
        return True if True in said else (False if False in said else None)


def _truth(value: bool | str | None) -> bool | None:
    return value.lower() not in ("false", "0", "no") if isinstance(value, str) else value


def _spec(lines: tuple[str, ...]) -> GitIgnoreSpec:
    return GitIgnoreSpec.from_lines(lines, backend="simple")


def _lines(repository: Repository) -> tuple[str, ...]:
    data = _current(repository, IGNORE_FILE)
    return tuple(data.decode("utf-8", errors="replace").splitlines()) if data else ()


def _current(repository: Repository, name: str) -> bytes | None:
    """A file's content in the work tree; at HEAD, where there is no work tree."""
    if repository.is_bare:
        return repository.read_at_head(name)
    try:
        return (repository.root / name).read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _speaks_of_them(repository: Repository) -> bool:
    """Whether asking for attributes, path by path, can say anything."""
    names = {ATTRIBUTE_FILE, *_attribute_files(repository)}
    contents = [_current(repository, name) or b"" for name in names]
    contents.append(repository.own_attributes())
    return any(b"linguist-" in content for content in contents)


def _attribute_files(repository: Repository) -> list[str]:
    head = repository.head()
    try:
        files = repository.tree_files(head) if head else []
    except UnreadableObject:
        return []
    return [path for path, _ in files if path.endswith("/" + ATTRIBUTE_FILE)]
