"""The contract between the folders, and the databases; knows Arrow, DuckDB and files; nothing of git.

- `errors`: the root of the error tree
- `schema`: one Arrow schema per table, a line of meaning per field
- `versions`: the schema's version and what each one changed
- `places`: where an index lives; the repo id
- `locking`: who may open an index, many readers or one writer, nobody starved; who may write a mindmap
- `holders`: which processes hold a lock
- `runs`: which indexing run is the only one of its index, and which one is next
- `database`: open for reading, open for one batch of writing; the settings of both
- `holding`: keep an index open from batch to batch, until somebody waits for it
- `reading`: keep an index open from question to question, until a writer waits for it
- `migrations`: bring an index to the current schema, each step once, in one transaction with its record
- `steps`: the numbered steps from schema to schema
- `writing`: replace a batch by commit, replace HEAD's symbols, begin and end a pass, delete an index
- `litter`: the indexes under a home, and what killed programs left beside them
- `compaction`: copy an index into a fresh file when much of it is free or unclustered
- `integrity`: whether an index is whole, block by block and table by table
- `loadable`: the database's extensions, where they are installed
- `metadata`: component versions, what made which rows, and the compatibility verdict
- `history`: exact reads: what is recorded, counts, HEAD's files
- `reach`: which recorded commits HEAD reaches
- `snapshot`: what every question about one state of an index reads
- `filters`: what a person asked to see, as one choice every lane shares
- `ranking`: scores -> a lane's best hunks
- `lexical`: full-text lanes: words -> hits
- `vectors`: vector lane: exact, whitened per index
- `showing`: what an answer shows of a hunk: its commit, its diff, the symbols it touched
- `mindmaps`: mindmap documents as files: locked read-modify-write, atomic replace, ids
"""
