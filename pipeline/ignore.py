"""Ignore rules, lowest precedence first: built-in defaults, git attributes, `.lineageignore`.

The last layer that matches a path decides, so `!package-lock.json` in `.lineageignore` includes what a default ignores.
Attributes come from the files at HEAD, in the work tree, of the git directory, and of the user (`core.attributesFile`).
"""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import re2
from cachetools import LRUCache
from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from pipeline.git import attributes, git_dir
from pipeline.git.attributes import MAX_PATTERN_CHARACTERS
from pipeline.git.changes import list_parent_directories
from pipeline.git.repository import Repository, UnreadableObject, open_repository
from stores.errors import LineageError

IGNORE_FILE: Final = ".lineageignore"
ATTRIBUTES: Final = ("linguist-generated", "linguist-vendored")
# Number of paths whose results are cached. Most histories have fewer paths; the cache takes a few megabytes at most.
MAX_CACHED_PATHS: Final = 50_000

# Patterns of lock files, copied dependencies and generated files. The list is short, because ignoring a user's own work
# is worse than indexing a lock file.
DEFAULT_PATTERNS: Final = (
    # copied dependencies
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


class UnreadableIgnoreFile(LineageError):
    """An ignore file exists but cannot be read. Indexing stops, because the file may exclude secrets."""

    def __init__(self, file: Path, reason: str) -> None:
        super().__init__(f"{file} cannot be read: {reason}.", hint="Make it readable, or remove it.")


class PatternTooLong(LineageError):
    """A pattern of the ignore file is too long to be matched quickly."""

    def __init__(self, line_number: int, length: int) -> None:
        super().__init__(
            f"Line {line_number:,} of {IGNORE_FILE} has {length:,} characters; "
            f"a pattern has at most {MAX_PATTERN_CHARACTERS:,}.",
            hint="Shorten or remove the line.",
        )


class UnsupportedPattern(LineageError):
    """A pattern of the ignore file is valid in git, but cannot be matched here."""

    def __init__(self, line_number: int, reason: str) -> None:
        super().__init__(
            f"Line {line_number:,} of {IGNORE_FILE} cannot be matched: {reason}.",
            hint="Simplify or remove the line.",
        )


class LinearPattern(GitIgnoreSpecPattern):
    """Gitignore pattern that RE2 matches in time linear in the path, with bracket expressions as in git.

    A repository may have any pattern, and `re` takes exponential time for some, such as `*a*a*a*a*a*ab`.
    """

    def __init__(self, pattern: str, include: bool | None = None) -> None:
        super().__init__(pattern, include)
        if self.regex is not None:
            self.regex = attributes.compile_regex(self.regex.pattern)

    @classmethod
    def pattern_to_regex(cls, pattern: str) -> tuple[str | None, bool | None]:  # type: ignore[override]  # no bytes
        """Return the regular expression of a line, and whether to ignore matching paths. Raises ValueError.

        Both are None for a comment or a blank line.
        """
        regex, include = super().pattern_to_regex(_mask_line(pattern))
        return regex, include

    @staticmethod
    def _translate_segment_glob(pattern: str, range_error: str) -> str:  # noqa: ARG004 - signature of pathspec
        """Return the regular expression of a path segment, in place of pathspec's. Raises ValueError."""
        return "".join(map(attributes.translate_part, attributes.GLOB_PART.finditer(pattern)))


@dataclass(slots=True)
class IgnoreRules:
    """Ignore rules of a repository. Workers receive them pickled and open the repository to read attributes."""

    repository_path: Path  # for `open_repository`
    patterns: tuple[str, ...]  # of `.lineageignore`
    has_attributes: bool  # whether any attributes file mentions an attribute that starts with `linguist-`
    _verdicts: LRUCache[str, bool] = field(  # results of `is_ignored` by path
        default_factory=lambda: LRUCache(MAX_CACHED_PATHS), repr=False, compare=False
    )
    _default_spec: GitIgnoreSpec | None = field(default=None, repr=False, compare=False)
    _file_spec: GitIgnoreSpec | None = field(default=None, repr=False, compare=False)
    _repository: Repository | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_repository(cls, repository: Repository) -> IgnoreRules:
        """Read the rules of a repository from its work tree; of a bare repository, from HEAD."""
        return cls(
            repository.path_to_reopen, _read_patterns(repository), _has_linguist_attributes(repository)
        )

    def is_ignored(self, path: str) -> bool:
        """Return whether a path is excluded from the index."""
        verdict = self._verdicts.get(path)
        if verdict is None:
            verdict = self._verdicts[path] = self._decide(path)
        return verdict

    def __reduce__(self) -> tuple[type[IgnoreRules], tuple[Path, tuple[str, ...], bool]]:
        return type(self), (self.repository_path, self.patterns, self.has_attributes)

    def _decide(self, path: str) -> bool:
        """Apply the layers, highest precedence first. A path that none of them matches is not ignored."""
        if self._default_spec is None or self._file_spec is None:
            self._default_spec, self._file_spec = (
                compile_patterns(DEFAULT_PATTERNS),
                compile_patterns(self.patterns),
            )
        # pathspec's `include` is True for a path to ignore, False after a pattern with `!`, and None without a match.
        verdict = self._file_spec.check_file(path).include
        if verdict is None and self.has_attributes:
            verdict = self._check_attributes(path)
        if verdict is None:
            verdict = self._default_spec.check_file(path).include
        return bool(verdict)

    def _check_attributes(self, path: str) -> bool | None:
        """Return True (ignore) if a linguist attribute is set, else False (include) if one is unset, else None."""
        if self._repository is None:
            self._repository = open_repository(self.repository_path)
        values = [_to_bool(self._repository.get_attribute(path, name)) for name in ATTRIBUTES]
        if True in values:
            return True
        return False if False in values else None


def _to_bool(value: bool | str | None) -> bool | None:
    """Return the value of a git attribute as a boolean; None if no file specifies it."""
    return value.lower() not in ("false", "0", "no") if isinstance(value, str) else value


def _mask_line(line: str) -> str:
    """Replace each `/` in the bracket expressions of a line, because pathspec would split the pattern there.

    In git, a `/` in brackets anchors the pattern to the root like any other `/`. To keep this effect, a `/` is put in
    front of the pattern.
    """
    negation, pattern = ("!", line[1:]) if line.startswith("!") else ("", line)
    masked = attributes.mask_bracket_slashes(pattern)
    is_unchanged = masked == pattern or line.startswith("#")
    return line if is_unchanged else f"{negation}/{masked.removeprefix('/')}"


def compile_patterns(lines: Sequence[str]) -> GitIgnoreSpec:
    """Return a matcher for the lines of an ignore file. Raises ValueError or re2.error if one is invalid."""
    return GitIgnoreSpec.from_lines(lines, LinearPattern, backend="simple")


def parse_patterns(content: bytes) -> tuple[str, ...]:
    """Return the lines of an ignore file that are valid patterns. As in git, only a line feed ends a line.

    Raises PatternTooLong and UnsupportedPattern.
    """
    text = content.removeprefix(BOM_UTF8).decode("utf-8", errors="replace")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_PATTERN_CHARACTERS and not line.startswith("#"):
            raise PatternTooLong(number, len(line))
    return tuple(line for number, line in enumerate(lines, 1) if _is_effective(line, number))


def _is_effective(line: str, line_number: int) -> bool:
    """Return whether a line is a valid pattern, and not a comment or a blank line. Raises UnsupportedPattern."""
    try:
        return any(pattern.include is not None for pattern in compile_patterns((line,)).patterns)
    except ValueError:
        # git matches nothing with an invalid pattern: `!` alone, a trailing backslash, or `[a`.
        return False
    except re2.error as error:
        raise UnsupportedPattern(line_number, str(error)) from error


def _read_patterns(repository: Repository) -> tuple[str, ...]:
    file = repository.root / IGNORE_FILE
    try:
        if not repository.is_bare and os.path.lexists(file) and not file.is_file():
            raise UnreadableIgnoreFile(file, "it is neither a file nor a link to one")
        content = _read_file(repository, IGNORE_FILE)
    except OSError as error:
        raise UnreadableIgnoreFile(file, error.strerror or str(error)) from error
    return parse_patterns(content)


def _read_file(repository: Repository, name: str) -> bytes:
    """Return the content of a file in the work tree, or at HEAD of a bare repository; empty if there is none."""
    if repository.is_bare:
        return repository.read_file_at_head(name) or b""
    return git_dir.read_small_file(repository.root / name)


def _has_linguist_attributes(repository: Repository) -> bool:
    """Return whether any attributes file mentions a linguist attribute. If not, no path needs a lookup."""
    return any(b"linguist-" in content for content in _iter_attribute_files(repository))


def _iter_attribute_files(repository: Repository) -> Iterator[bytes]:
    """Yield the content of each attributes file that a lookup may read; empty if it is missing or unreadable.

    These are the files of the git directory and of the user, the files at HEAD, and the files in the work tree,
    committed or not, in directories that exist at HEAD.
    """
    yield from repository.read_local_attributes()
    head = repository.read_head()
    try:
        paths = {path for path, _ in repository.list_files(head)} if head else set()
    except UnreadableObject:
        paths = set()
    directories = {directory for path in paths for directory in list_parent_directories(path)}
    for name in sorted(
        {attributes.FILE_NAME, *(f"{directory}/{attributes.FILE_NAME}" for directory in directories)}
    ):
        if name in paths:
            yield repository.read_file_at_head(name) or b""
        if not repository.is_bare:
            yield git_dir.read_or_empty(repository.root / name, git_dir.MAX_TEXT_BYTES)
