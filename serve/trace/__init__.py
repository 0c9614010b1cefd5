"""History of a symbol by its name, also of one that HEAD no longer has: `trace_symbol`.

- `bodies`: Definitions of a name in the files of a commit, and their similarity
- `symbol_changes`: Changes of the symbols of one name by commits: introduced, modified, moved or removed
- `symbol_renames`: Symbol of another name that a removed symbol became, or that an introduced one was
- `symbol_tracer`: Selection of the symbol that a name means, and its changes through moves and renames
- `trace_symbol`: Main line: symbol, changes, order, answer
"""
