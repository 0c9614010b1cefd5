"""Classification of files by their paths: language, kind, role; and detection of generated files by their content.

The kind is the format of the content: code, prose, data or other. The role is the purpose of the file: source, tests,
prose or other. All functions are pure, and this module has no heavy imports.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final, Literal

# Language of a file by its suffix in lower case, without the dot.
LANGUAGE_BY_SUFFIX: Final = {
    "asm": "assembly", "s": "assembly", "bash": "shell", "sh": "shell", "zsh": "shell", "fish": "shell",
    "bat": "batch", "c": "c", "h": "c", "cc": "cpp", "cpp": "cpp", "cxx": "cpp", "hh": "cpp", "hpp": "cpp",
    "cfg": "ini", "ini": "ini", "properties": "ini", "clj": "clojure", "cljs": "clojure", "cmake": "cmake",
    "cs": "csharp", "css": "css", "scss": "css", "sass": "css", "less": "css", "csv": "csv", "tsv": "csv",
    "cu": "cuda", "dart": "dart", "el": "lisp", "lisp": "lisp", "elm": "elm", "erl": "erlang", "ex": "elixir",
    "exs": "elixir", "f90": "fortran", "fs": "fsharp", "go": "go", "gradle": "groovy", "groovy": "groovy",
    "graphql": "graphql", "hs": "haskell", "htm": "html", "html": "html", "jinja": "html", "j2": "html",
    "java": "java", "js": "javascript", "cjs": "javascript", "jsx": "javascript", "mjs": "javascript",
    "json": "json", "json5": "json", "jsonc": "json", "jl": "julia", "kt": "kotlin", "kts": "kotlin",
    "lua": "lua", "m": "objective-c", "mm": "objective-c", "mk": "make", "md": "markdown",
    "markdown": "markdown", "mdx": "markdown", "ml": "ocaml", "mli": "ocaml", "nim": "nim", "nix": "nix",
    "php": "php", "pl": "perl", "pm": "perl", "proto": "protobuf", "ps1": "powershell", "py": "python",
    "pyi": "python", "pyw": "python", "pyx": "cython", "pxd": "cython", "r": "r", "rb": "ruby", "rs": "rust",
    "rst": "restructuredtext", "sc": "scala", "scala": "scala", "sol": "solidity", "sql": "sql",
    "svelte": "svelte", "svg": "xml", "swift": "swift", "tex": "latex", "tf": "hcl", "hcl": "hcl",
    "toml": "toml", "ts": "typescript", "cts": "typescript", "mts": "typescript", "tsx": "typescript",
    "txt": "text", "vim": "vimscript", "vue": "vue", "xml": "xml", "yaml": "yaml", "yml": "yaml",
    "zig": "zig",
}  # fmt: skip

# Language of a file by its name in lower case. The name takes precedence over the suffix.
LANGUAGE_BY_NAME: Final = {
    "cmakelists.txt": "cmake",
    "containerfile": "dockerfile",
    "dockerfile": "dockerfile",
    "gemfile": "ruby",
    "gnumakefile": "make",
    "jenkinsfile": "groovy",
    "makefile": "make",
    "rakefile": "ruby",
}

# Languages whose hunk headers (`@@ ... @@ LINE`) name no symbol. LINE is the nearest line above that starts with a
# letter, and in these languages such a line defines nothing.
LANGUAGES_WITHOUT_SYMBOLS: Final = frozenset(
    {"css", "csv", "dockerfile", "hcl", "html", "ini", "json", "latex", "markdown", "restructuredtext"}
    | {"svelte", "text", "toml", "vue", "xml", "yaml"}
)

# Languages that tree-sitter parses. `.tsx` files are TypeScript, with their own grammar, in which `<T>x` is not a cast.
LANGUAGES_WITH_GRAMMAR: Final = frozenset({"rust", "python", "java", "kotlin", "typescript", "javascript"})

FileKind = Literal["code", "prose", "data", "other"]

FileRole = Literal["source", "tests", "prose", "other"]

PROSE_LANGUAGES: Final = frozenset({"markdown", "restructuredtext", "latex", "text"})

PROSE_SUFFIXES: Final = frozenset({"adoc", "asciidoc", "org", "pod", "textile", "rdoc"})

DATA_LANGUAGES: Final = frozenset({"csv", "json", "xml"})

# Suffixes of tables, archives, images, sound, models and other files that people do not read as text.
DATA_SUFFIXES: Final = frozenset(
    {"jsonl", "ndjson", "geojson", "parquet", "feather", "arrow", "avro", "npy", "npz", "pkl", "pickle", "h5", "hdf5"}
    | {"mat", "rds", "db", "sqlite", "sqlite3", "duckdb", "dat", "bin", "raw", "har", "pcap", "log", "out", "golden"}
    | {"png", "jpg", "jpeg", "gif", "bmp", "ico", "icns", "webp", "tif", "tiff", "psd", "pdf", "ttf", "otf", "woff"}
    | {"woff2", "eot", "mp3", "mp4", "wav", "ogg", "webm", "mov", "zip", "gz", "bz2", "xz", "zst", "tar", "tgz", "jar"}
    | {"whl", "egg", "exe", "dll", "so", "dylib", "a", "o", "class", "wasm", "onnx", "pt", "safetensors", "gguf"}
    | {"pem", "crt", "cer", "key", "der", "p12"}
)  # fmt: skip

# Matches paths of lists of required packages. Their suffix `.txt` would make them prose.
_REQUIREMENTS_FILE: Final = re.compile(r"(?:requirements|constraints)[^/]*(?:/[^/]*)?\.txt$")

# Languages that are code, although their hunk headers name no symbols.
CODE_WITHOUT_SYMBOLS: Final = frozenset({"svelte", "vue"})

_LANGUAGES_WITHOUT_CODE: Final = LANGUAGES_WITHOUT_SYMBOLS - CODE_WITHOUT_SYMBOLS

# Patterns of the names of generated files, in lower case, besides those that `pipeline.ignore` excludes. A wrong match
# does little harm, because `lineage plan` suggests a directory only if most of its files count as generated.
GENERATED_FILE_PATTERNS: Final = (
    "*.lock", "*-lock.json", "*-lock.yaml", "*.lockfile", "*.min.*", "*.bundle.js", "*.pb.cc", "*.pb.h", "*_pb2.pyi",
    "*.g.dart", "*.freezed.dart", "*.generated.*", "*_generated.*", "*.gen.go", "*.gen.ts", "*.designer.cs", "*.snap",
    "*.ambr", "*.tsbuildinfo",
)  # fmt: skip

# Number of bytes at the start of a file in which a generator's mark (`_GENERATED_HEADER`) is looked for.
HEADER_BYTES: Final = 1_000

_GENERATED_HEADER: Final = re.compile(
    rb"@generated\b|\bdo not (?:edit|modify)\b(?! this file with)|\bcode generated by\b"
    rb"|\b(?:auto(?:matically)?[- ]?generated|generated automatically)\b|\bthis file (?:is|was) generated\b",
    re.IGNORECASE,
)

# A file with a longer average line is generated, because nobody writes such lines by hand.
MAX_AVERAGE_LINE_BYTES: Final = 400
# The length of lines decides only in files larger than this.
MIN_LONG_LINE_FILE_BYTES: Final = 5_000

# Names of test directories. `lineage plan` never suggests such a directory as data or documentation.
TEST_DIRECTORIES: Final = frozenset({"test", "tests", "testing", "spec", "specs", "__tests__", "t"})

# Names of directories with test inputs, test support or benchmarks.
_TEST_SUPPORT_DIRECTORIES: Final = frozenset(
    {"testdata", "testfixtures", "test-fixtures", "__mocks__", "__fixtures__", "e2e"}
    | {"bench", "benches", "benchmark", "benchmarks"}
)

# Matches other names of test directories: `commonTest` (Kotlin), `Shop.Tests` (C#), `core-tests`. `test` in lower case
# needs a separator before it, because `latest` and `contest` are other words.
_TEST_DIRECTORY: Final = re.compile(r".*(?:[a-z0-9]Tests?|[._-][Tt]ests?)")

# Matches `test_x.py`, `x_test.go`, `x-test.js`, `FooTest.java` and `FooTests.kt`. `spec` counts only in names such as
# `x.spec.ts` and `x_spec.rb`, because elsewhere it is no word for a test: `PodSpec.java` describes pods.
_TEST_FILE: Final = re.compile(
    r"(?:tests?_.*|(?:.*[._-])?(?:tests?|bench)|.*[a-z0-9](?:Tests?|TestCase|IT)|conftest)\.\w+"
    r"|.*\.spec\.\w+|.*[_-]spec\.(?:rb|lua|cr|[cm]?[jt]sx?)"
)

# Number of paths whose roles are cached. Classifying a path takes 27 us, and commits and answers repeat the same paths.
MAX_CACHED_PATHS: Final = 65_536

# Code in these directories has the role of prose.
_DOCUMENTATION_DIRECTORIES: Final = frozenset({"docs", "doc", "documentation"})

# Matches lower-case names of changelogs.
_CHANGELOG: Final = re.compile(
    r"(?:changelog|changes|history|news|release[_-]?notes)(?:\.(?:md|rst|txt|adoc))?"
)
# Names of directories in which each file describes one change, for the next changelog.
_CHANGELOG_DIRECTORIES: Final = frozenset({"changelog", "changelog.d", "changes", "news", "newsfragments"})

# Languages of build files, whose role is not source.
_BUILD_LANGUAGES: Final = frozenset({"make", "cmake", "nix"})

# Matches lower-case names of files that build, run checks or hold the version.
_BUILD_FILE: Final = re.compile(
    r"setup\.py|noxfile\.py|_*version_*\.\w+|build\.rs|gemfile|rakefile|jenkinsfile|.*\.gradle(?:\.kts)?"
    r"|(?:gulp|grunt)file\.\w+|[\w.-]+\.config\.\w+|package\.swift"
)


def detect_language(path: str) -> str | None:
    """Return the language of a file, such as `python`, by its name or suffix; None if unknown."""
    name = _get_file_name(path)
    return LANGUAGE_BY_NAME.get(name) or LANGUAGE_BY_SUFFIX.get(_get_suffix(name))


def get_grammar_name(path: str) -> str | None:
    """Return the name of the tree-sitter grammar for a file; None if there is none, and for declaration files."""
    language = detect_language(path)
    if language not in LANGUAGES_WITH_GRAMMAR or is_declaration_file(path):
        return None
    return "tsx" if _get_suffix(_get_file_name(path)) == "tsx" else language


def is_declaration_file(path: str) -> bool:
    """Return whether the file is a declaration file of TypeScript: `.d.ts`, `.d.mts` or `.d.cts`."""
    return _get_file_name(path).endswith((".d.ts", ".d.mts", ".d.cts"))


def has_symbol_headers(path: str) -> bool:
    """Return whether git's hunk header in this file can name a symbol."""
    language = detect_language(path)
    return (
        language is not None and language not in LANGUAGES_WITHOUT_SYMBOLS and not is_declaration_file(path)
    )


@lru_cache(MAX_CACHED_PATHS)
def classify_role(path: str) -> FileRole:
    """Return the role of a file by its path."""
    if is_test(path):
        return "tests"
    if has_generated_name(path):
        return "other"
    kind = classify_kind(path)
    if kind == "prose":
        return "prose"
    if kind != "code":
        return "other"
    if _DOCUMENTATION_DIRECTORIES.intersection(_list_parent_names(path.lower())):
        return "prose"
    return "other" if _is_build_file(path) else "source"


def classify_kind(path: str) -> FileKind:
    """Return the kind of a file by its path."""
    language, suffix = detect_language(path), _get_suffix(_get_file_name(path))
    if language == "text" and _REQUIREMENTS_FILE.search(path.lower()):
        return "other"
    if language in PROSE_LANGUAGES or suffix in PROSE_SUFFIXES:
        return "prose"
    if language in DATA_LANGUAGES or suffix in DATA_SUFFIXES:
        return "data"
    if language is None or language in _LANGUAGES_WITHOUT_CODE:
        return "other"
    return "code"


def is_test(path: str) -> bool:
    """Return whether the file at a path is a test, test support or a benchmark."""
    if any(map(_is_test_directory, _list_parent_names(path))):
        return True
    name = path.rpartition("/")[2]
    return classify_kind(path) == "code" and _TEST_FILE.fullmatch(name) is not None


def is_changelog(path: str) -> bool:
    """Return whether the path is that of a changelog, or of a fragment of one, as towncrier uses."""
    if _CHANGELOG.fullmatch(_get_file_name(path)):
        return True
    parents = _list_parent_names(path.lower())
    return bool(parents) and parents[-1] in _CHANGELOG_DIRECTORIES and classify_kind(path) == "prose"


def has_generated_name(path: str) -> bool:
    """Return whether the file has a name that only generators give to files."""
    name = _get_file_name(path)
    return any(fnmatchcase(name, pattern) for pattern in GENERATED_FILE_PATTERNS)


def is_generated(content: bytes) -> bool:
    """Return whether the content of a file is marked as generated, or has lines too long to be written by hand."""
    if _GENERATED_HEADER.search(content[:HEADER_BYTES]):
        return True
    lines = content.count(b"\n") + 1
    return (
        len(content) > MIN_LONG_LINE_FILE_BYTES
        and b"\0" not in content
        and len(content) > lines * MAX_AVERAGE_LINE_BYTES
    )


def _is_test_directory(name: str) -> bool:
    return (
        name.lower() in TEST_DIRECTORIES
        or name.lower() in _TEST_SUPPORT_DIRECTORIES
        or _TEST_DIRECTORY.fullmatch(name) is not None
    )


def _is_build_file(path: str) -> bool:
    return (
        detect_language(path) in _BUILD_LANGUAGES or _BUILD_FILE.fullmatch(_get_file_name(path)) is not None
    )


def _list_parent_names(path: str) -> list[str]:
    """Return the names of the directories that contain a path, topmost first."""
    return path.split("/")[:-1]


def _get_file_name(path: str) -> str:
    """Return the last part of a path, in lower case."""
    return path.rpartition("/")[2].lower()


def _get_suffix(name: str) -> str:
    """Return the text after the last dot of a name; empty without a dot."""
    return name.rpartition(".")[2] if "." in name else ""
