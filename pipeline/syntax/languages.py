"""Language of a file by its name, and languages with a grammar. This module has no heavy imports."""

from __future__ import annotations

from typing import Final

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

# Languages whose hunk headers name no symbol: git takes any line that starts with a letter as a header.
LANGUAGES_WITHOUT_SYMBOLS: Final = frozenset(
    {"css", "csv", "dockerfile", "hcl", "html", "ini", "json", "latex", "markdown", "restructuredtext"}
    | {"svelte", "text", "toml", "vue", "xml", "yaml"}
)

# TypeScript has a second grammar for `.tsx` files, in which `<T>x` is not a cast.
LANGUAGES_WITH_GRAMMAR: Final = frozenset({"rust", "python", "java", "kotlin", "typescript", "javascript"})


def detect_language(path: str) -> str | None:
    """Return the language of a file by its name, such as `python`; None if unknown."""
    name = _get_file_name(path)
    return LANGUAGE_BY_NAME.get(name) or LANGUAGE_BY_SUFFIX.get(_get_suffix(name))


def get_grammar_name(path: str) -> str | None:
    """Return the name of the grammar of a file; None for languages without one and for declaration files."""
    language = detect_language(path)
    if language not in LANGUAGES_WITH_GRAMMAR or is_declaration_file(path):
        return None
    return "tsx" if _get_suffix(_get_file_name(path)) == "tsx" else language


def is_declaration_file(path: str) -> bool:
    """Return whether the file only has declarations: `.d.ts`, `.d.mts` or `.d.cts`."""
    return _get_file_name(path).endswith((".d.ts", ".d.mts", ".d.cts"))


def has_symbol_headers(path: str) -> bool:
    """Return whether git's hunk header in this file can name a symbol."""
    language = detect_language(path)
    return (
        language is not None and language not in LANGUAGES_WITHOUT_SYMBOLS and not is_declaration_file(path)
    )


def _get_file_name(path: str) -> str:
    return path.rpartition("/")[2].lower()


def _get_suffix(name: str) -> str:
    return name.rpartition(".")[2] if "." in name else ""
