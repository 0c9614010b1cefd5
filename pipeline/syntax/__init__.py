"""Parsing of source code with tree-sitter: symbols and chunks of a file, and symbols that a hunk touches.

A hunk is the diff of one file; a chunk is a part of a file, in general within a token budget.

- `grammars`: tree-sitter parsers and symbol queries, loaded on first use
- `trees`: syntax trees of file versions, parsed incrementally where that gives the same tree; cache of parsed versions
- `symbols`: symbols that a file defines
- `touched_symbols`: symbols that a hunk touches
- `outline`: symbols and chunks of a file
"""
