"""Reading source: from a path to its grammar, from bytes to trees, from trees to symbols.

What a history makes by the hundred thousand is a tuple with names: making a frozen dataclass takes three times as long.

- `languages`: path -> language by file name; tables only
- `grammars`: path -> grammar and its symbol queries, loaded once per process
- `content`: a file's bytes and where its lines start
- `edits`: two contents and their diff -> the ranges that were replaced
- `trees`: contents -> syntax trees, each version from the one before
- `definitions`: syntax tree -> the symbols it defines
- `chunks`: syntax tree -> chunks of a bounded size
- `touched`: a changed file's versions and its diff -> the symbols the change touched
"""
