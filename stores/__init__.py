"""Databases and files: the DuckDB index of a repository and the mindmap files.

Index
- `database`: opening of the index file for reading or writing
- `index_copy`: reading of the index, or of a copy while another process holds the index
- `connections`: long-lived connections that yield to other processes
- `duckdb_engine`: in-memory DuckDB instances, with memory and thread limits
- `locks`: file locks of indexes and mindmaps
- `index_location`: index directory of a repository, and repository id
- `schema`: Arrow schemas of the tables; `tables.sql` has the DDL
- `migrations`: schema migrations, and the DDL of full-text indexes: `full_text.sql` and `tokenize.sql`
- `compatibility`: component versions of an index, and compatibility check
- `maintenance`: compaction, integrity check, deletion of an index and of leftover files
- `embedding_cache`: vectors by content, in a database beside the index

Writing and reading
- `writer`: write transactions, and replacement of outdated symbols and terms
- `history`: recorded commits, status numbers, history of a file and of a symbol
- `hunk_details`: commit, diff and symbols of hunks, for display
- `sql`: connections for SQL statements of users; `sql_views.sql` has the views and macros for them
- `frames`: tables as polars frames

Search
- `filters`: conditions of a query on hunks, in SQL
- `snapshot`: reachable hunks and postings as NumPy arrays, filters as masks over them, and top-k selection
- `exact_search`: text or regular expression in added and removed lines; commits that changed given lines
- `fulltext`: BM25 search; insertion of postings
- `vector_search`: vector search, vectors of commit messages, optional HNSW index by DuckDB's VSS extension
- `vectors`: texts without a vector; whitening transform; vectors as 8-bit codes, and exact products with them

Others
- `mindmap_files`: mindmap files and their names
- `errors`: base exception, and conversion of system errors
"""
