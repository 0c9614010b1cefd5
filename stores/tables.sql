-- Tables of an index. `schema.py` has the same columns, types and nullability, with a description of
-- each column; a test compares the two. `migrations.py` lists what each schema version changed.
--
-- No primary keys and no indexes: every batch would have to maintain them, DuckDB could not merge row
-- groups, and no query needs one. `writer.py` keeps rows unique.
-- DuckDB chooses zstd by itself only for texts of 4 KB and more. It halves the size of diffs.

CREATE TABLE repository (
    repo_id             VARCHAR NOT NULL,
    path                VARCHAR NOT NULL,
    first_commit        VARCHAR,
    last_indexed_commit VARCHAR,
    indexed_at          TIMESTAMP,
    head_commit         VARCHAR,
    clustered_hunks     BIGINT NOT NULL,
    completed_commit    VARCHAR
);

CREATE TABLE metadata (
    component VARCHAR NOT NULL,
    version   VARCHAR,
    writer    VARCHAR
);

-- Component versions of the rows, written in the transaction that writes the rows.
CREATE TABLE made_by (
    part      VARCHAR NOT NULL,
    component VARCHAR NOT NULL,
    version   VARCHAR
);

-- At most one row: the usage of the embedding cache, which is a separate file.
CREATE TABLE embed_cache (
    entries BIGINT NOT NULL,
    asked   BIGINT NOT NULL,
    found   BIGINT NOT NULL
);

CREATE TABLE migrations (
    version    INTEGER NOT NULL,
    applied_at TIMESTAMP NOT NULL
);

CREATE TABLE commits (
    commit_sha     VARCHAR NOT NULL,
    parents        VARCHAR[] NOT NULL,
    author_name    VARCHAR NOT NULL,
    author_email   VARCHAR NOT NULL,
    author_date    TIMESTAMP NOT NULL,
    commit_date    TIMESTAMP NOT NULL,
    message        VARCHAR NOT NULL USING COMPRESSION zstd,
    message_digest BLOB NOT NULL
);

CREATE TABLE hunks (
    hunk_id           BIGINT NOT NULL,
    commit_sha        VARCHAR NOT NULL,
    file_path         VARCHAR NOT NULL,
    file_path_bytes   BLOB,
    old_path          VARCHAR,
    change_kind       VARCHAR NOT NULL,
    content_kind      VARCHAR NOT NULL,
    language          VARCHAR,
    added_lines       INTEGER NOT NULL,
    removed_lines     INTEGER NOT NULL,
    diff              VARCHAR NOT NULL USING COMPRESSION zstd,
    diff_truncated    BOOLEAN NOT NULL,
    semantic_text     VARCHAR NOT NULL USING COMPRESSION zstd,
    text_digest       BLOB NOT NULL,
    word_count        INTEGER NOT NULL,
    symbol_word_count INTEGER NOT NULL
);

CREATE TABLE hunk_symbols (
    hunk_id    BIGINT NOT NULL,
    name       VARCHAR NOT NULL,
    parent     VARCHAR NOT NULL,
    kind       VARCHAR NOT NULL,
    confidence VARCHAR NOT NULL
);

-- One row per distinct text of hunks and messages.
CREATE TABLE vectors (
    text_digest BLOB NOT NULL,
    codes       TINYINT[384] NOT NULL,
    scale       FLOAT NOT NULL
);

-- Terms of all three posting tables.
CREATE TABLE terms (
    term_id INTEGER NOT NULL,
    term    VARCHAR NOT NULL
);

-- Sorted by term up to `repository.clustered_hunks`, so that a query reads few row groups. The
-- postings of later hunks follow, each batch sorted by term.
CREATE TABLE hunk_postings (
    term_id   INTEGER NOT NULL,
    hunk_id   BIGINT NOT NULL,
    frequency INTEGER NOT NULL
);

CREATE TABLE symbol_postings (
    term_id   INTEGER NOT NULL,
    hunk_id   BIGINT NOT NULL,
    frequency INTEGER NOT NULL
);

CREATE TABLE head_files (
    file_path VARCHAR NOT NULL,
    blob_sha  VARCHAR NOT NULL,
    language  VARCHAR NOT NULL
);

CREATE TABLE head_symbols (
    symbol_id     BIGINT NOT NULL,
    file_path     VARCHAR NOT NULL,
    kind          VARCHAR NOT NULL,
    name          VARCHAR NOT NULL,
    parent        VARCHAR NOT NULL,
    start_line    INTEGER NOT NULL,
    end_line      INTEGER NOT NULL,
    source_text   VARCHAR NOT NULL USING COMPRESSION zstd,
    sibling_names VARCHAR[] NOT NULL,
    chunk         INTEGER NOT NULL,
    word_count    INTEGER NOT NULL
);

CREATE TABLE head_chunks (
    file_path  VARCHAR NOT NULL,
    chunk      INTEGER NOT NULL,
    start_line INTEGER NOT NULL,
    end_line   INTEGER NOT NULL,
    tokens     INTEGER NOT NULL
);

CREATE TABLE head_postings (
    term_id   INTEGER NOT NULL,
    symbol_id BIGINT NOT NULL,
    frequency INTEGER NOT NULL
);

CREATE TABLE unreadable (
    commit_sha VARCHAR NOT NULL,
    reason     VARCHAR NOT NULL
);

CREATE TABLE unreached (
    commit_sha VARCHAR NOT NULL
);

CREATE TABLE branch_patterns (
    pattern    VARCHAR NOT NULL
);

CREATE TABLE branch_tips (
    commit_sha VARCHAR NOT NULL
);
