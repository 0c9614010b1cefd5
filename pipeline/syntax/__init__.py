"""Parsing of source code with tree-sitter: symbols and chunks of a file, and symbols that a hunk touches.

- `grammars`: tree-sitter parsers and symbol queries, loaded on first use
- `trees`: syntax trees of file versions, parsed incrementally where that is safe; cache of parsed versions
- `symbols`: symbols that a file defines
- `touched_symbols`: symbols that a hunk touches
- `outline`: symbols of a file, and chunks within a token budget
"""
