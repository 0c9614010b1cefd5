"""The HEAD snapshot's symbols: only files whose content changed since the last pass are parsed again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from pipeline.extract import Extracted, Task, batch_of, extract, opened, word_rows
from pipeline.git.repository import Repository, UnreadableObject
from pipeline.ignore import IgnoreRules
from pipeline.parse import Outline, outline
from pipeline.syntax.grammars import grammar_of, language_of
from pipeline.text import words
from stores import schema

# A slice is one transaction: large enough to amortise it, small enough to bound memory.
FILES_PER_SLICE: Final = 200


@dataclass(frozen=True, slots=True)
class HeadFile:
    """One file of the snapshot: its path and the blob that holds its content."""

    path: str
    blob: str


@dataclass(frozen=True, slots=True)
class Slice:
    """Some files of one repository's snapshot, small enough to travel to a worker."""

    repository: Path
    files: tuple[HeadFile, ...]


@dataclass(frozen=True, slots=True)
class Outlined:
    """The rows of one slice, in the schemas of `stores.schema`; row numbers count from 0.

    `paths`: its files that were read. `unread`: the others, whose rows stay as they were.
    """

    paths: tuple[str, ...]
    unread: tuple[str, ...]
    files: pa.RecordBatch
    symbols: pa.RecordBatch
    chunks: pa.RecordBatch
    words: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class _Read:
    """A file and its outline."""

    file: HeadFile
    outline: Outline


def snapshot(repository: Repository, head: str, rules: IgnoreRules) -> dict[str, str]:
    """Path -> blob of every file at HEAD that has a grammar and is not ignored."""
    files = repository.tree_files(head)
    return {path: blob for path, blob in files if grammar_of(path) is not None and not rules.ignored(path)}


def changed(wanted: Mapping[str, str], recorded: Mapping[str, str]) -> list[HeadFile]:
    """The files whose recorded content, if any, is not the wanted one."""
    return [HeadFile(path, blob) for path, blob in wanted.items() if recorded.get(path) != blob]


def slices(repository: Path, changed: Sequence[HeadFile]) -> Iterator[Slice]:
    """The changed files in portions."""
    for start in range(0, len(changed), FILES_PER_SLICE):
        yield Slice(repository, tuple(changed[start : start + FILES_PER_SLICE]))


def work(task: Task | Slice) -> Extracted | Outlined:
    """What a worker does with what it is given: a batch of history, or a slice of its end."""
    return extract(task) if isinstance(task, Task) else outlined(task)


def outlined(portion: Slice) -> Outlined:
    """New rows for files; a missing blob leaves its file for the next pass."""
    read, unread = [], []
    for file in portion.files:
        grammar = grammar_of(file.path)
        if grammar is None:
            continue
        try:
            source = opened(portion.repository).blob(file.blob)
        except UnreadableObject:
            unread.append(file.path)
        else:
            read.append(_Read(file, outline(source, grammar)))
    return _rows([entry.file.path for entry in read], read, unread)


def gone(paths: Sequence[str]) -> Outlined:
    """No rows for files that are no more."""
    return _rows(paths, [])


def _rows(paths: Sequence[str], outlined: Sequence[_Read], unread: Sequence[str] = ()) -> Outlined:
    symbols = [(entry.file, placed) for entry in outlined for placed in entry.outline.symbols]
    documents = [_words(placed.symbol.name, placed.siblings) for _, placed in symbols]
    return Outlined(
        paths=tuple(paths),
        unread=tuple(unread),
        files=batch_of(
            schema.HEAD_FILES,
            file_path=[entry.file.path for entry in outlined],
            blob_sha=[entry.file.blob for entry in outlined],
            language=[language_of(entry.file.path) or "" for entry in outlined],
        ),
        symbols=batch_of(
            schema.HEAD_SYMBOLS,
            symbol_id=range(len(symbols)),
            file_path=[file.path for file, _ in symbols],
            kind=[placed.symbol.kind for _, placed in symbols],
            name=[placed.symbol.name for _, placed in symbols],
            parent=[placed.symbol.parent for _, placed in symbols],
            start_line=[placed.symbol.start_line for _, placed in symbols],
            end_line=[placed.symbol.end_line for _, placed in symbols],
            source_text=[placed.symbol.source_text for _, placed in symbols],
            sibling_names=[list(placed.siblings) for _, placed in symbols],
            chunk=[placed.chunk for _, placed in symbols],
            word_count=[document.total() for document in documents],
        ),
        chunks=_chunk_rows(outlined),
        words=word_rows(documents),
    )


def _chunk_rows(outlined: Sequence[_Read]) -> pa.RecordBatch:
    chunks = [
        (entry.file.path, number, chunk)
        for entry in outlined
        for number, chunk in enumerate(entry.outline.chunks)
    ]
    return batch_of(
        schema.HEAD_CHUNKS,
        file_path=[path for path, _, _ in chunks],
        chunk=[number for _, number, _ in chunks],
        start_line=[chunk.start_line for _, _, chunk in chunks],
        end_line=[chunk.end_line for _, _, chunk in chunks],
        tokens=[chunk.tokens for _, _, chunk in chunks],
    )


def _words(name: str, siblings: Sequence[str]) -> Counter[str]:
    return words(" ".join((name, *siblings)))
