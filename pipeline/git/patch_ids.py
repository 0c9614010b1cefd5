"""Patch ids: digests of the changes of commits, without line numbers. Copies of a commit have the same one."""

from __future__ import annotations

import hashlib
from typing import Final

from pipeline.git.errors import UnreadableObject
from pipeline.git.patches import HEADER_LINE, strip_file_header
from pipeline.git.repository import Repository

# A copied commit has a few files. Comparing larger ones would delay an answer.
MAX_FILES: Final = 100
MAX_FILE_BYTES: Final = 1 << 20


def compute_patch_id(repository: Repository, sha: str) -> bytes | None:
    """Return a digest of a commit's paths, modes and changed lines with their context.

    Unlike in `git patch-id`, white space counts, and binary files. None if the commit changes no file, more than
    `MAX_FILES` or a file larger than `MAX_FILE_BYTES`, or cannot be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        diff = repository.diff_with_first_parent(sha)
        if not 0 < len(diff.changes) <= MAX_FILES:
            return None
        for change in sorted(diff.changes, key=lambda change: change.path):
            if any(repository.read_blob_size(blob) > MAX_FILE_BYTES for blob in change.blobs):
                return None
            patch = diff.read_patch(change)
            lines = HEADER_LINE.sub(b"@@", strip_file_header(patch.data))
            content = change.blobs if patch.is_binary else lines
            modes = change.old_mode, change.new_mode
            digest.update(repr((change.path, change.old_path, change.kind, modes, content)).encode())
    except UnreadableObject:
        return None
    return digest.digest()
