"""Source code parsing with tree-sitter: symbols and chunks.

- `chunks`: Splits a syntax tree into token-bounded chunks
- `grammars`: Loads tree-sitter parsers and symbol queries
- `languages`: Language by file name (lookup tables)
- `symbols`: Symbol definitions in a syntax tree: kind, parents, span; symbols touched by the
  changed lines of a hunk
- `trees`: File bytes with line offsets; diff lines to byte ranges for incremental parsing; parses
  file versions, incrementally where safe; version cache
"""
