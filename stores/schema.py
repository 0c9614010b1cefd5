"""One Arrow schema per table, a line of meaning under each field, and what each schema version changed.

`tables.sql` says the same as commented DDL; a test holds the two together. All times are UTC; all
shas are lower-case hex (40 characters, or 64 in a SHA-256 repository).
"""

from __future__ import annotations

import hashlib
from typing import Final

import pyarrow as pa

from stores.types import EMBEDDING_DIMENSION

DIGEST: Final = pa.binary(16)
VECTOR: Final = pa.list_(pa.float32(), EMBEDDING_DIMENSION)
TIMESTAMP: Final = pa.timestamp("us")


def field(name: str, kind: pa.DataType, meaning: str, *, nullable: bool = False) -> pa.Field:
    """A column with its line of meaning."""
    return pa.field(name, kind, nullable=nullable, metadata={"meaning": meaning})


REPOSITORY: Final = pa.schema(
    [
        field("repo_id", pa.string(), "Name of the index folder under LINEAGE_HOME."),
        field("path", pa.string(), "Canonical path of the repository when it was last indexed."),
        field(
            "first_commit",
            pa.string(),
            "Sha of the first commit on HEAD when the index was made; part of the repo id.",
            nullable=True,
        ),
        field(
            "last_indexed_commit",
            pa.string(),
            "The watermark: every commit it reaches is recorded, or remembered as unreadable.",
            nullable=True,
        ),
        field("indexed_at", TIMESTAMP, "When the watermark last moved.", nullable=True),
        field(
            "head_commit",
            pa.string(),
            "The HEAD that the `unreached` table is exact for: the target of the newest pass.",
            nullable=True,
        ),
        field("clustered_hunks", pa.int64(), "Postings of hunks below this number lie clustered by term."),
        field(
            "completed_commit",
            pa.string(),
            "The HEAD of the newest pass that ended, with its snapshot of HEAD; null until one did.",
            nullable=True,
        ),
    ]
)

METADATA: Final = pa.schema(
    [
        field("component", pa.string(), "A versioned part of the program, such as `embedding_model`."),
        field(
            "version",
            pa.string(),
            "What the newest pass that ended vouches for: the version of every row it made, or the oldest one.",
            nullable=True,
        ),
        field(
            "writer",
            pa.string(),
            "The version at work in the newest pass, ended or not; it made the rows of that pass.",
            nullable=True,
        ),
    ]
)

MADE_BY: Final = pa.schema(
    [
        field(
            "part", pa.string(), "`history` (commits, hunks, vectors, words) or `head` (the HEAD snapshot)."
        ),
        field("component", pa.string(), "A component that made rows of this part."),
        field(
            "version",
            pa.string(),
            "A version that some of them may be of; null where nobody noted which.",
            nullable=True,
        ),
    ]
)

EMBED_CACHE: Final = pa.schema(
    [
        field("entries", pa.int64(), "Vectors in the embedding cache when it was last written to."),
        field("asked", pa.int64(), "Texts that the newest pass with a cache needed a vector for."),
        field("found", pa.int64(), "Those of them whose vector was in the cache."),
    ]
)

MIGRATIONS: Final = pa.schema(
    [
        field("version", pa.int32(), "A schema version this file was made with or brought to."),
        field("applied_at", TIMESTAMP, "When."),
    ]
)

COMMITS: Final = pa.schema(
    [
        field("commit_sha", pa.string(), "Full object id."),
        field("parents", pa.list_(pa.string()), "Shas of the parents, first parent first; empty for a root."),
        field("author_name", pa.string(), "Author after `.mailmap`."),
        field("author_email", pa.string(), "Author's address after `.mailmap`."),
        field("author_date", TIMESTAMP, "When the change was written."),
        field("commit_date", TIMESTAMP, "When the commit was made, by the committer's clock."),
        field("message", pa.string(), "The whole message, decoded by the commit's own encoding."),
        field(
            "message_digest",
            DIGEST,
            "Digest of the text that was embedded for the message; key into `vectors`.",
        ),
    ]
)

HUNKS: Final = pa.schema(
    [
        field("hunk_id", pa.int64(), "Row number given by the store; in a batch in flight, counted from 0."),
        field("commit_sha", pa.string(), "The commit this file change belongs to."),
        field(
            "file_path", pa.string(), "Path after the change (before it, when deleted); bad bytes as `\\xNN`."
        ),
        field(
            "file_path_bytes",
            pa.binary(),
            "The path's own bytes, only where they are not UTF-8.",
            nullable=True,
        ),
        field("old_path", pa.string(), "Path before a rename.", nullable=True),
        field(
            "change_kind",
            pa.string(),
            "`added`, `modified`, `deleted`, `renamed`, `mode_changed` or `type_changed`.",
        ),
        field("content_kind", pa.string(), "`text`, `binary`, `submodule`, `symlink` or `oversize`."),
        field(
            "language",
            pa.string(),
            "Language by file name, such as `python`; null when unknown.",
            nullable=True,
        ),
        field("added_lines", pa.int32(), "Lines added, counted before any cut."),
        field("removed_lines", pa.int32(), "Lines removed, counted before any cut."),
        field(
            "diff", pa.string(), "The `@@` parts as git prints them, kept for display; empty when not text."
        ),
        field("diff_truncated", pa.bool_(), "Whether `diff` was cut at the stated limit."),
        field(
            "semantic_text",
            pa.string(),
            "Commit, file, language, symbols, change, added lines: what is embedded, but for cache mode `diff`.",
        ),
        field(
            "text_digest",
            DIGEST,
            "Digest of the text that was embedded, `semantic_text` or the diff alone; key into `vectors`.",
        ),
        field("word_count", pa.int32(), "Words in the hunk-text lane: the document length of BM25."),
        field("symbol_word_count", pa.int32(), "Words in the symbol-name lane: the document length of BM25."),
    ]
)

HUNK_SYMBOLS: Final = pa.schema(
    [
        field("hunk_id", pa.int64(), "The hunk that touched the symbol."),
        field("name", pa.string(), "Name as written at its definition."),
        field("parent", pa.string(), "Dotted names of the enclosing symbols; empty at top level."),
        field(
            "kind", pa.string(), "`function`, `method`, `class`, `struct`, ... ; `unknown` for a hunk header."
        ),
        field(
            "confidence",
            pa.string(),
            "`ExactSpan`: a touched line lies in its span; `HunkHeader`: git's section heading named it.",
        ),
    ]
)

VECTORS: Final = pa.schema(
    [
        field("text_digest", DIGEST, "First 16 bytes of the text's BLAKE2b."),
        field("embedding", VECTOR, "Unit vector of the text, as the encoder made it."),
    ]
)

TERMS: Final = pa.schema(
    [
        field("term_id", pa.int32(), "Number of the word, in order of first appearance."),
        field("term", pa.string(), "A word as split and stemmed by `pipeline.text`."),
    ]
)

HUNK_POSTINGS: Final = pa.schema(
    [
        field("term_id", pa.int32(), "The word."),
        field("hunk_id", pa.int64(), "The hunk whose text has it."),
        field("frequency", pa.int32(), "How often."),
    ]
)

SYMBOL_POSTINGS: Final = pa.schema(
    [
        field("term_id", pa.int32(), "The word."),
        field("hunk_id", pa.int64(), "The hunk that touched a symbol with this word in its name."),
        field("frequency", pa.int32(), "How often."),
    ]
)

HEAD_FILES: Final = pa.schema(
    [
        field("file_path", pa.string(), "A parsed file of the HEAD snapshot."),
        field("blob_sha", pa.string(), "The content its symbols were extracted from."),
        field("language", pa.string(), "The grammar that parsed it."),
    ]
)

HEAD_SYMBOLS: Final = pa.schema(
    [
        field(
            "symbol_id", pa.int64(), "Row number given by the store; in a batch in flight, counted from 0."
        ),
        field("file_path", pa.string(), "The file it lives in at HEAD."),
        field("kind", pa.string(), "`function`, `method`, `class`, `struct`, ..."),
        field("name", pa.string(), "Name as written."),
        field("parent", pa.string(), "Dotted names of the enclosing symbols; empty at top level."),
        field("start_line", pa.int32(), "First line, 1-based, decorators and annotations included."),
        field("end_line", pa.int32(), "Last line, inclusive."),
        field("source_text", pa.string(), "The symbol's source, decorators and annotations verbatim."),
        field(
            "sibling_names",
            pa.list_(pa.string()),
            "Names of the other symbols in its chunk, in source order.",
        ),
        field("chunk", pa.int32(), "Ordinal of the chunk it starts in, within its file."),
        field("word_count", pa.int32(), "Words of its name and siblings: the document length of BM25."),
    ]
)

HEAD_CHUNKS: Final = pa.schema(
    [
        field("file_path", pa.string(), "The file at HEAD."),
        field("chunk", pa.int32(), "Ordinal in the file, from 0."),
        field("start_line", pa.int32(), "First line, 1-based."),
        field("end_line", pa.int32(), "Last line, inclusive."),
        field("tokens", pa.int32(), "Estimated tokens: characters / 4."),
    ]
)

HEAD_POSTINGS: Final = pa.schema(
    [
        field("term_id", pa.int32(), "The word."),
        field("symbol_id", pa.int64(), "The HEAD symbol whose name or siblings have it."),
        field("frequency", pa.int32(), "How often."),
    ]
)

UNREADABLE: Final = pa.schema(
    [
        field(
            "commit_sha",
            pa.string(),
            "A commit below the watermark that could not be read; tried again each run.",
        ),
        field("reason", pa.string(), "What was missing or damaged."),
    ]
)

UNREACHED: Final = pa.schema(
    [
        field("commit_sha", pa.string(), "A recorded commit that `repository.head_commit` does not reach."),
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
}

# In flight only: a document's words before the store has given them numbers.
WORDS: Final = pa.schema(
    [
        field("document", pa.int64(), "`hunk_id` or `symbol_id` of the same batch, counted from 0."),
        field("term", pa.string(), "A word as split and stemmed by `pipeline.text`."),
        field("frequency", pa.int32(), "How often the document has it."),
    ]
)


def schema_digest() -> str:
    """Digest of every table's names, types and nullability; a test pins it beside SCHEMA_VERSION."""
    lines = [
        f"{table}.{column.name} {column.type} {column.nullable}"
        for table, schema in TABLES.items()
        for column in schema
    ]
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()
