"""Databases and files: the DuckDB index of a repository and the mindmap files.

Index
- `database`: opening of the index file for reading or writing
- `index_copy`: reading of the index, or of a copy while another process holds the index
- `connections`: long-lived connections that yield to other processes
- `duckdb_engine`: in-memory DuckDB instances, with memory and thread limits
- `locks`: file locks of indexes and mindmaps
- `index_location`: index directory of a repository, and repository id
- `schema`: Arrow schemas of the tables; `tables.sql` has the DDL
- `migrations`: schema migrations; DDL of the full-text indexes, from `full_text.sql` and `tokenize.sql`
- `compatibility`: versions of the components (such as parsers) that wrote an index, and whether this program can use it
- `maintenance`: compaction, integrity check, deletion of an index and of leftover files
- `embedding_cache`: vectors of earlier runs, found by the content of their texts; a database beside the index

Writing and reading
- `writer`: write transactions, and replacement of outdated symbols and terms
- `history`: recorded commits, status numbers, history of a file and of a symbol
- `hunk_details`: commit, diff and symbols of hunks, copies and reverts of commits, for display
- `sql`: connections for SQL statements of users; `sql_views.sql` has the views and macros for them
- `frames`: tables as polars frames

Search
- `filters`: conditions of a query on hunks, in SQL
- `snapshot`: reachable hunks and postings as NumPy arrays, filters as masks over the hunks, and top-k selection
- `exact_search`: changes with a text or regular expression in their lines, of given files, or with given terms
- `fulltext`: BM25 search; insertion of postings
- `vector_search`: vector search, vectors of commit messages, optional HNSW index by DuckDB's VSS extension
- `vectors`: texts that have no vector yet; whitening transform; 8-bit codes of vectors, and dot products with them

Others
- `mindmap_files`: mindmap files and their names
- `errors`: base exception, and conversion of system errors
"""
