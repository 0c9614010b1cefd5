"""Source code parsing with tree-sitter: symbols and chunks.

- `grammars`: tree-sitter parsers and symbol queries, loaded on first use
- `trees`: syntax trees of file versions, parsed incrementally where that is safe; cache of versions
- `symbols`: symbols that a file defines, and those that a hunk touches
- `chunks`: chunks of a file, within a token budget
"""
