"""The HEAD snapshot's symbols: only files whose content changed since the last pass are parsed again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from pipeline.extract import batch_of, word_rows
from pipeline.git.repository import Repository, UnreadableObject, open_repository
from pipeline.ignore import IgnoreRules
from pipeline.parse import Outline, outline
from pipeline.source.grammars import grammar_of, language_of
from pipeline.text import words
from pipeline.workers import Workers
from stores import schema
from stores.writing import HeadChange

# A slice is one transaction: large enough to amortise it, small enough to bound memory.
FILES_PER_SLICE: Final = 200


@dataclass(frozen=True, slots=True)
class HeadFile:
    """One file of the snapshot: its path and the blob that holds its content."""

    path: str
    blob: str


@dataclass(frozen=True, slots=True)
class Outlined:
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


def changes(
    repository: Path, changed: Sequence[HeadFile], gone: Sequence[str], workers: Workers
) -> Iterator[HeadChange]:
    """New rows for the changed files and none for those that are gone, slice by slice."""
    if gone:
        yield _change(gone, [])
    slices = [changed[start : start + FILES_PER_SLICE] for start in range(0, len(changed), FILES_PER_SLICE)]
    outlined = workers.mapped(partial(_outlines, repository), slices, most=len(slices))
    for files, outlines in zip(slices, outlined, strict=True):
        yield _change([file.path for file in files], outlines)


@lru_cache(maxsize=1)
def _repository(path: Path) -> Repository:
    return open_repository(path)


def _outlines(path: Path, files: Sequence[HeadFile]) -> list[Outlined]:
    """Outlines of the files that can be read; a missing blob leaves its file for the next pass."""
    found = []
    for file in files:
        grammar = grammar_of(file.path)
        with suppress(UnreadableObject):
            if grammar is not None:
                found.append(Outlined(file, outline(_repository(path).blob(file.blob), grammar)))
    return found


def _change(replaced: Sequence[str], outlined: Sequence[Outlined]) -> HeadChange:
    symbols = [(entry.file, placed) for entry in outlined for placed in entry.outline.symbols]
    documents = [_words(placed.symbol.name, placed.siblings) for _, placed in symbols]
    return HeadChange(
        replaced_paths=tuple(replaced),
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


def _chunk_rows(outlined: Sequence[Outlined]) -> pa.RecordBatch:
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
