"""Arrow schema of each table, with a description of each column.

`tables.sql` has the same tables as DDL; a test compares the two. All times are UTC. All shas are lower-case hex:
40 characters, or 64 in a SHA-256 repository.
"""

from __future__ import annotations

import hashlib
from typing import Final, TypeAlias

import pyarrow as pa

from stores.compatibility import EMBEDDING_DIMENSION

DIGEST: Final = pa.binary(16)
CODES: Final = pa.list_(pa.int8(), EMBEDDING_DIMENSION)
VECTOR: Final = pa.list_(pa.float32(), EMBEDDING_DIMENSION)
TIMESTAMP: Final = pa.timestamp("us")

# Rows of a table.
Rows: TypeAlias = pa.Table | pa.RecordBatch


def field(name: str, data_type: pa.DataType, meaning: str, *, nullable: bool = False) -> pa.Field:
    """Return a column. `meaning`: its description, which becomes metadata of the column."""
    return pa.field(name, data_type, nullable=nullable, metadata={"meaning": meaning})


REPOSITORY: Final = pa.schema(
    [
        field("repo_id", pa.string(), "Name of the index directory under LINEAGE_HOME."),
        field("path", pa.string(), "Canonical path of the repository when it was last indexed."),
        field(
            "first_commit",
            pa.string(),
            "Sha of HEAD's first commit when the index was created; part of the repo id.",
            nullable=True,
        ),
        field(
            "last_indexed_commit",
            pa.string(),
            "The watermark: every commit that it reaches is in `commits` or `unreadable`.",
            nullable=True,
        ),
        field("indexed_at", TIMESTAMP, "Time of the last change of the watermark.", nullable=True),
        field(
            "head_commit",
            pa.string(),
            "HEAD of the newest index run, finished or not; `unreached` refers to it.",
            nullable=True,
        ),
        field(
            "clustered_hunks",
            pa.int64(),
            "The postings of hunks with lower ids are sorted by term; the postings of later hunks follow unsorted.",
        ),
        field(
            "completed_commit",
            pa.string(),
            "HEAD of the newest finished index run with a complete HEAD snapshot; null before the first.",
            nullable=True,
        ),
    ]
)

METADATA: Final = pa.schema(
    [
        field(
            "component", pa.string(), "A part of the program that has a version, such as `embedding_model`."
        ),
        field(
            "version",
            pa.string(),
            "Version of all rows as of the newest finished index run; an older version if some rows still have it.",
            nullable=True,
        ),
        field(
            "writer",
            pa.string(),
            "Version that the newest index run uses, finished or not.",
            nullable=True,
        ),
    ]
)

# Versions of the components that wrote the rows of each part.
MADE_BY: Final = pa.schema(
    [
        field(
            "part",
            pa.string(),
            "`history` (commits, hunks, vectors, postings) or `head` (the HEAD snapshot).",
        ),
        field("component", pa.string(), "A component that wrote rows of this part."),
        field(
            "version",
            pa.string(),
            "A version that some of these rows may have; null if it was not recorded.",
            nullable=True,
        ),
    ]
)

EMBED_CACHE: Final = pa.schema(
    [
        field("entries", pa.int64(), "Number of vectors in the embedding cache after the last write to it."),
        field(
            "asked", pa.int64(), "Number of texts that needed a vector in the newest index run with a cache."
        ),
        field("found", pa.int64(), "Number of these texts whose vector was in the cache."),
    ]
)

MIGRATIONS: Final = pa.schema(
    [
        field("version", pa.int32(), "A schema version that this file was created with or migrated to."),
        field("applied_at", TIMESTAMP, "Time of the creation or migration."),
    ]
)

COMMITS: Final = pa.schema(
    [
        field("commit_sha", pa.string(), "Full object id."),
        field("parents", pa.list_(pa.string()), "Shas of the parents, first parent first; empty for a root."),
        field("author_name", pa.string(), "Name of the author, mapped by `.mailmap`."),
        field("author_email", pa.string(), "Address of the author, mapped by `.mailmap`."),
        field("author_date", TIMESTAMP, "Time of the original change."),
        field("commit_date", TIMESTAMP, "Time of the commit, by the committer's clock."),
        field("message", pa.string(), "Complete message, decoded with the encoding that the commit states."),
        field(
            "message_digest",
            DIGEST,
            "Digest of the message's embedded text; key of `vectors`.",
        ),
    ]
)

# One row per changed file of a commit: a "hunk" here is the file's whole diff, with all its `@@` sections.
HUNKS: Final = pa.schema(
    [
        field("hunk_id", pa.int64(), "Row number, assigned on insertion; within a batch, counted from 0."),
        field("commit_sha", pa.string(), "The commit that changed the file."),
        field(
            "file_path",
            pa.string(),
            "Path after the change, or before a deletion; invalid UTF-8 as `\\xNN`. Empty in the only row of a commit "
            "that changes no file itself.",
        ),
        field(
            "file_path_bytes",
            pa.binary(),
            "Bytes of the path if they are not UTF-8; else null.",
            nullable=True,
        ),
        field("old_path", pa.string(), "Path before a rename.", nullable=True),
        field(
            "change_kind",
            pa.string(),
            "`added`, `modified`, `deleted`, `renamed`, `mode_changed` or `type_changed`. Without a file, `merged` "
            "(a merge) or `empty` (any other commit).",
        ),
        field(
            "content_kind",
            pa.string(),
            "`text`, `binary`, `submodule`, `symlink` or `oversize`; `message` without a file.",
        ),
        field(
            "language",
            pa.string(),
            "Language by file name, such as `python`; null if unknown.",
            nullable=True,
        ),
        field("added_lines", pa.int32(), "Number of added lines, including those that `diff` leaves out."),
        field(
            "removed_lines", pa.int32(), "Number of removed lines, including those that `diff` leaves out."
        ),
        field(
            "diff",
            pa.string(),
            "The `@@` sections as git prints them; empty if the file is not text. In the only row of a merge without "
            "own changes: the list of paths that it changes against its first parent.",
        ),
        field("diff_truncated", pa.bool_(), "True if `diff` was cut at the size limit."),
        field(
            "semantic_text",
            pa.string(),
            "Message, file, language, symbols, change and added lines; embedded except in cache mode `diff`.",
        ),
        field(
            "text_digest",
            DIGEST,
            "Digest of the embedded text, `semantic_text` or the diff alone; key of `vectors`.",
        ),
        field("word_count", pa.int32(), "Number of terms in the hunk's text: the document length of BM25."),
        field(
            "symbol_word_count",
            pa.int32(),
            "Number of terms in touched symbols' names: the document length of BM25.",
        ),
    ]
)

HUNK_SYMBOLS: Final = pa.schema(
    [
        field("hunk_id", pa.int64(), "The hunk that touched the symbol."),
        field("name", pa.string(), "Name as in the definition."),
        field("parent", pa.string(), "Dotted names of the enclosing symbols; empty at top level."),
        field(
            "kind",
            pa.string(),
            "`function`, `method`, `class`, `struct` and so on; `unknown` if only git's hunk header names it.",
        ),
        field(
            "confidence",
            pa.string(),
            "`ExactSpan`: the symbol contains a changed line. `HunkHeader`: git's hunk header names it.",
        ),
    ]
)

VECTORS: Final = pa.schema(
    [
        field("text_digest", DIGEST, "First 16 bytes of the text's BLAKE2b."),
        field(
            "codes", CODES, "Embedding of the text, each number divided by `scale` and rounded; -127 to 127."
        ),
        field("scale", pa.float32(), "Largest absolute value of the embedding, divided by 127."),
    ]
)

TERMS: Final = pa.schema(
    [
        field("term_id", pa.int32(), "Number of the term, in order of first appearance."),
        field("term", pa.string(), "A stemmed word or a whole identifier, as `pipeline.text` splits texts."),
    ]
)

HUNK_POSTINGS: Final = pa.schema(
    [
        field("term_id", pa.int32(), "The term."),
        field("hunk_id", pa.int64(), "A hunk whose text has the term."),
        field("frequency", pa.int32(), "Number of occurrences."),
    ]
)

SYMBOL_POSTINGS: Final = pa.schema(
    [
        field("term_id", pa.int32(), "The term."),
        field("hunk_id", pa.int64(), "A hunk that touched a symbol with this term in its name."),
        field("frequency", pa.int32(), "Number of occurrences."),
    ]
)

HEAD_FILES: Final = pa.schema(
    [
        field("file_path", pa.string(), "Path of a parsed file at HEAD."),
        field("blob_sha", pa.string(), "Blob that its symbols were extracted from."),
        field("language", pa.string(), "Language of the grammar that parsed it."),
    ]
)

HEAD_SYMBOLS: Final = pa.schema(
    [
        field("symbol_id", pa.int64(), "Row number, assigned on insertion; within a batch, counted from 0."),
        field("file_path", pa.string(), "Path of the file at HEAD that contains it."),
        field("kind", pa.string(), "`function`, `method`, `class`, `struct` and so on."),
        field("name", pa.string(), "Name as in the definition."),
        field("parent", pa.string(), "Dotted names of the enclosing symbols; empty at top level."),
        field("start_line", pa.int32(), "First line, 1-based, decorators and annotations included."),
        field("end_line", pa.int32(), "Last line, inclusive."),
        field("source_text", pa.string(), "Source of the symbol, decorators and annotations included."),
        field(
            "sibling_names",
            pa.list_(pa.string()),
            "Names of the other symbols in its chunk, in source order.",
        ),
        field("chunk", pa.int32(), "Number of the chunk that it starts in, from 0 within the file."),
        field(
            "word_count", pa.int32(), "Number of terms in its name and siblings: the document length of BM25."
        ),
    ]
)

HEAD_CHUNKS: Final = pa.schema(
    [
        field("file_path", pa.string(), "Path of the file at HEAD."),
        field("chunk", pa.int32(), "Number of the chunk, from 0 within the file."),
        field("start_line", pa.int32(), "First line, 1-based."),
        field("end_line", pa.int32(), "Last line, inclusive."),
        field("tokens", pa.int32(), "Estimated tokens: characters / 4."),
    ]
)

HEAD_POSTINGS: Final = pa.schema(
    [
        field("term_id", pa.int32(), "The term."),
        field("symbol_id", pa.int64(), "A symbol whose name or siblings have the term."),
        field("frequency", pa.int32(), "Number of occurrences."),
    ]
)

UNREADABLE: Final = pa.schema(
    [
        field(
            "commit_sha",
            pa.string(),
            "A commit that the watermark reaches and that could not be read; each index run tries it again.",
        ),
        field("reason", pa.string(), "Cause, such as a missing object."),
    ]
)

UNREACHED: Final = pa.schema(
    [
        field("commit_sha", pa.string(), "A recorded commit that `repository.head_commit` does not reach."),
    ]
)

BRANCH_PATTERNS: Final = pa.schema(
    [
        field(
            "pattern",
            pa.string(),
            "Pattern of refs, such as `topic/*`, whose commits each index run indexes besides those of HEAD.",
        ),
    ]
)

BRANCH_TIPS: Final = pa.schema(
    [
        field(
            "commit_sha",
            pa.string(),
            "Commit of a ref that matched a pattern in the newest finished index run. Every commit that it reaches is "
            "in `commits` or `unreadable`.",
        ),
    ]
)

TABLES: Final[dict[str, pa.Schema]] = {
    "repository": REPOSITORY,
    "metadata": METADATA,
    "made_by": MADE_BY,
    "embed_cache": EMBED_CACHE,
    "migrations": MIGRATIONS,
    "commits": COMMITS,
    "hunks": HUNKS,
    "hunk_symbols": HUNK_SYMBOLS,
    "vectors": VECTORS,
    "terms": TERMS,
    "hunk_postings": HUNK_POSTINGS,
    "symbol_postings": SYMBOL_POSTINGS,
    "head_files": HEAD_FILES,
    "head_symbols": HEAD_SYMBOLS,
    "head_chunks": HEAD_CHUNKS,
    "head_postings": HEAD_POSTINGS,
    "unreadable": UNREADABLE,
    "unreached": UNREACHED,
    "branch_patterns": BRANCH_PATTERNS,
    "branch_tips": BRANCH_TIPS,
}

# Not a table: the embeddings of a batch's texts, before `writer` quantizes them.
EMBEDDINGS: Final = pa.schema(
    [
        field("text_digest", DIGEST, "First 16 bytes of the text's BLAKE2b."),
        field("embedding", VECTOR, "Embedding of the text, normalized (Euclidean norm 1)."),
    ]
)

# Not a table: the terms of a batch's documents, before the transaction assigns term ids.
DOCUMENT_TERMS: Final = pa.schema(
    [
        field("document", pa.int64(), "`hunk_id` or `symbol_id` of the same batch, counted from 0."),
        field("term", pa.string(), "A stemmed word or a whole identifier, as `pipeline.text` splits texts."),
        field("frequency", pa.int32(), "Number of occurrences in the document."),
    ]
)


def compute_schema_digest() -> str:
    """Return a digest of the names, types and nullability of all columns. A test checks it for each SCHEMA_VERSION."""
    lines = [
        f"{table}.{column.name} {column.type} {column.nullable}"
        for table, schema in TABLES.items()
        for column in schema
    ]
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()
