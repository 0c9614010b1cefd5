"""History of a symbol by its name, also of a symbol that HEAD no longer has: `trace_symbol`.

- `symbol_changes`: changes of the symbols of one name by commits, and definitions of a name in the files of a commit
- `symbol_tracer`: selection of the symbol that a name means, and its changes through moves and renames
- `trace_symbol`: main module: symbol, changes, order, answer
"""
