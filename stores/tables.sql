-- The tables of one index. The same columns, types and nullability as `schema.py`, where each has its
-- meaning; a test holds the two together. `schema.py` says what each schema version changed.
--
-- No primary keys and no indexes: each would be maintained by every batch, keeps DuckDB from merging
-- row groups, and nothing here needs one. What must be unique is made so by `writing.py`.
-- zstd is asked for by name because DuckDB picks it itself only for texts of 4 KB and more; it
-- halves the room that diffs take.

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

-- Written in the transaction that writes the rows it speaks of.
CREATE TABLE made_by (
    part      VARCHAR NOT NULL,
    component VARCHAR NOT NULL,
    version   VARCHAR
);

-- One row once a cache was used; the cache itself is a file of its own, which outlives this one.
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

-- One row a distinct text, whichever messages and hunks share it.
CREATE TABLE vectors (
    text_digest BLOB NOT NULL,
    embedding   FLOAT[384] NOT NULL
);

-- The three lanes' words share one numbering.
CREATE TABLE terms (
    term_id INTEGER NOT NULL,
    term    VARCHAR NOT NULL
);

-- Clustered by term up to `repository.clustered_hunks`, so that asking for a word reads few row
-- groups; later hunks follow in the order they came.
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
