"""Path -> language by file name, and which languages have a grammar; tables only, nothing to load."""

from __future__ import annotations

from typing import Final

BY_SUFFIX: Final = {
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

BY_NAME: Final = {
    "cmakelists.txt": "cmake",
    "containerfile": "dockerfile",
    "dockerfile": "dockerfile",
    "gemfile": "ruby",
    "gnumakefile": "make",
    "jenkinsfile": "groovy",
    "makefile": "make",
    "rakefile": "ruby",
}

# git's section heading takes any line that starts with a letter: in these it names no symbol.
WITHOUT_SYMBOLS: Final = frozenset(
    {"css", "csv", "dockerfile", "hcl", "html", "ini", "json", "latex", "markdown", "restructuredtext"}
    | {"svelte", "text", "toml", "vue", "xml", "yaml"}
)

# Languages with a grammar here; `.tsx` needs one of its own, since `<T>x` means two things.
PARSED: Final = frozenset({"rust", "python", "java", "kotlin", "typescript", "javascript"})


def language_of(path: str) -> str | None:
    """Language by the file's name, such as `python`; None when the name says nothing."""
    name = _name(path)
    return BY_NAME.get(name) or BY_SUFFIX.get(_suffix(name))


def grammar_name(path: str) -> str | None:
    """Grammar that parses the file; None for a language without one and for declaration files."""
    language = language_of(path)
    if language not in PARSED or is_declaration_file(path):
        return None
    return "tsx" if _suffix(_name(path)) == "tsx" else language


def is_declaration_file(path: str) -> bool:
    """Whether it only declares what other files define: `.d.ts` and its module forms."""
    return _name(path).endswith((".d.ts", ".d.mts", ".d.cts"))


def names_symbols(path: str) -> bool:
    """Whether a section heading in this file can be taken for the name of a symbol."""
    language = language_of(path)
    return language is not None and language not in WITHOUT_SYMBOLS and not is_declaration_file(path)


def _name(path: str) -> str:
    return path.rpartition("/")[2].lower()


def _suffix(name: str) -> str:
    return name.rpartition(".")[2] if "." in name else ""
