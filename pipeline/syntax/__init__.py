"""Source code parsing with tree-sitter: symbols and chunks of a file, and symbols that a hunk touches.

- `grammars`: tree-sitter parsers and symbol queries, loaded on first use
- `trees`: syntax trees of file versions, parsed incrementally where that is safe; cache of versions
- `symbols`: symbols that a file defines, and those that a hunk touches
- `outline`: symbols and chunks of a file; chunks within a token budget
"""
