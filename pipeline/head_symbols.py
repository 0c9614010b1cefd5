"""HEAD snapshot: symbols and chunks of the files at HEAD. Only files that changed since the last run are parsed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from pipeline.extract import (
    ExtractedBatch,
    ExtractTask,
    build_record_batch,
    build_term_rows,
    extract_batches,
)
from pipeline.file_classification import detect_language
from pipeline.git.repository import Repository, UnreadableObject, open_repository
from pipeline.ignore import IgnoreRules
from pipeline.syntax.grammars import load_grammar_for_path
from pipeline.syntax.outline import Outline, parse_outline
from pipeline.text import count_terms
from stores import schema

# Files per worker task and transaction: enough that the transactions cost little, few enough to bound memory.
FILES_PER_SLICE: Final = 200


@dataclass(frozen=True, slots=True)
class HeadFile:
    """File at HEAD. `blob`: SHA of its content."""

    path: str
    blob: str


@dataclass(frozen=True, slots=True)
class HeadSlice:
    """Worker task: files at HEAD to parse. `repository`: path for `open_repository`."""

    repository: Path
    files: tuple[HeadFile, ...]


@dataclass(frozen=True, slots=True)
class ParsedFiles:
    """Rows of a slice, in the schemas of `stores.schema`. Symbols are numbered from 0 in each slice.

    `replaced_paths`: files whose old rows in the index are deleted before these rows are written.
    `unreadable_paths`: files that could not be read. Their rows in the index do not change.
    """

    replaced_paths: tuple[str, ...]
    unreadable_paths: tuple[str, ...]
    files: pa.RecordBatch
    symbols: pa.RecordBatch
    chunks: pa.RecordBatch
    terms: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class _ParsedFile:
    """File with its outline."""

    file: HeadFile
    outline: Outline


def list_head_files(repository: Repository, head: str, rules: IgnoreRules) -> dict[str, str]:
    """Return path -> SHA of the blob, for every file at HEAD that has a grammar and is not ignored."""
    files = repository.list_files(head)
    return {
        path: blob
        for path, blob in files
        if load_grammar_for_path(path) is not None and not rules.is_ignored(path)
    }


def find_changed_files(head_files: Mapping[str, str], recorded_blobs: Mapping[str, str]) -> list[HeadFile]:
    """Return the files at HEAD that are new or have another blob. Both mappings: path -> SHA of the blob."""
    return [HeadFile(path, blob) for path, blob in head_files.items() if recorded_blobs.get(path) != blob]


def split_into_slices(repository: Path, changed_files: Sequence[HeadFile]) -> Iterator[HeadSlice]:
    """Yield the changed files in slices of at most FILES_PER_SLICE. `repository`: path for `open_repository`."""
    for start in range(0, len(changed_files), FILES_PER_SLICE):
        yield HeadSlice(repository, tuple(changed_files[start : start + FILES_PER_SLICE]))


def run_task(task: ExtractTask | HeadSlice) -> tuple[ExtractedBatch | ParsedFiles, ...]:
    """Run a task in a worker: extract batches of commits, or parse a slice of HEAD."""
    return extract_batches(task) if isinstance(task, ExtractTask) else (parse_slice(task),)


def parse_slice(head_slice: HeadSlice) -> ParsedFiles:
    """Parse the files of a slice. A file whose blob cannot be read gets no new rows, so the next run tries it again."""
    repository = open_repository(head_slice.repository)
    parsed_files, unreadable_paths = [], []
    for file in head_slice.files:
        grammar = load_grammar_for_path(file.path)
        if grammar is None:
            continue
        try:
            source = repository.read_blob(file.blob)
        except UnreadableObject:
            unreadable_paths.append(file.path)
        else:
            parsed_files.append(_ParsedFile(file, parse_outline(source, grammar)))
    return _build_rows([parsed.file.path for parsed in parsed_files], parsed_files, unreadable_paths)


def build_deletion(paths: Sequence[str]) -> ParsedFiles:
    """Return a result without rows, which deletes the rows of these files from the index."""
    return _build_rows(paths, [])


def _build_rows(
    replaced_paths: Sequence[str], parsed_files: Sequence[_ParsedFile], unreadable_paths: Sequence[str] = ()
) -> ParsedFiles:
    """Return the rows of parsed files. `replaced_paths`, `unreadable_paths`: as in `ParsedFiles`."""
    symbols = [
        (parsed.file, symbol_in_chunk)
        for parsed in parsed_files
        for symbol_in_chunk in parsed.outline.symbols
    ]
    term_counts = [
        _count_name_terms(symbol_in_chunk.symbol.name, symbol_in_chunk.siblings)
        for _, symbol_in_chunk in symbols
    ]
    return ParsedFiles(
        replaced_paths=tuple(replaced_paths),
        unreadable_paths=tuple(unreadable_paths),
        files=build_record_batch(
            schema.HEAD_FILES,
            file_path=[parsed.file.path for parsed in parsed_files],
            blob_sha=[parsed.file.blob for parsed in parsed_files],
            language=[detect_language(parsed.file.path) or "" for parsed in parsed_files],
        ),
        symbols=build_record_batch(
            schema.HEAD_SYMBOLS,
            symbol_id=range(len(symbols)),
            file_path=[file.path for file, _ in symbols],
            kind=[symbol_in_chunk.symbol.kind for _, symbol_in_chunk in symbols],
            name=[symbol_in_chunk.symbol.name for _, symbol_in_chunk in symbols],
            parent=[symbol_in_chunk.symbol.parent for _, symbol_in_chunk in symbols],
            start_line=[symbol_in_chunk.symbol.start_line for _, symbol_in_chunk in symbols],
            end_line=[symbol_in_chunk.symbol.end_line for _, symbol_in_chunk in symbols],
            source_text=[symbol_in_chunk.symbol.source_text for _, symbol_in_chunk in symbols],
            sibling_names=[list(symbol_in_chunk.siblings) for _, symbol_in_chunk in symbols],
            chunk=[symbol_in_chunk.chunk_index for _, symbol_in_chunk in symbols],
            word_count=[counts.total() for counts in term_counts],
        ),
        chunks=_build_chunk_rows(parsed_files),
        terms=build_term_rows(term_counts),
    )


def _build_chunk_rows(parsed_files: Sequence[_ParsedFile]) -> pa.RecordBatch:
    chunks = [
        (parsed.file.path, number, chunk)
        for parsed in parsed_files
        for number, chunk in enumerate(parsed.outline.chunks)
    ]
    return build_record_batch(
        schema.HEAD_CHUNKS,
        file_path=[path for path, _, _ in chunks],
        chunk=[number for _, number, _ in chunks],
        start_line=[chunk.start_line for _, _, chunk in chunks],
        end_line=[chunk.end_line for _, _, chunk in chunks],
        tokens=[chunk.tokens for _, _, chunk in chunks],
    )


def _count_name_terms(name: str, siblings: Sequence[str]) -> Counter[str]:
    """Return the frequency of each term in the names of a symbol and its siblings, the other symbols of its chunk."""
    return count_terms(" ".join((name, *siblings)))
