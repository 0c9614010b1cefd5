"""The part of a file that is ours, between two marks; every other byte stays as it is.

Ours can be taken out so that the file is what it was, because a file without a line break at its end is met by
leaving out ours: it then belongs to what was written before the part.
"""

from __future__ import annotations

from dataclasses import dataclass

from stores.errors import LineageError


class BrokenFence(LineageError):
    """One of two marks is missing, so nobody can say what lies between them."""

    def __init__(self, start: bytes, end: bytes) -> None:
        super().__init__(
            f"a `{start.decode()}` has no `{end.decode()}` after it, so what is lineage's cannot be told",
            hint="take the rest of that part out by hand, its mark too, and run the command again",
        )


@dataclass(frozen=True, slots=True)
class Fences:
    """The two lines that enclose a part.

    `breaks`: how many line breaks go between it and what is before it. `eol`: what ends its lines; None: what
    ends the others in the file.
    """

    start: bytes
    end: bytes
    breaks: int
    eol: bytes | None = None

    def encloses(self, text: bytes) -> bool:
        """Whether the part is there; BrokenFence when it has no end."""
        return bool(self._spans(text))

    def added(self, text: bytes, part: bytes, at: int) -> bytes:
        """The text with the part, marks and all, on lines of its own before the byte `at`, or at the end."""
        eol, part = self._eol(text), self._fitting(part, text)
        before, after = text[:at], text[at:]
        if not before:
            return part + eol + after
        if before.endswith(b"\n"):
            return before + eol * (self.breaks - 1) + part + eol + after
        return before + eol * self.breaks + part  # the end of a text that ends without a line break

    def renewed(self, text: bytes, part: bytes) -> bytes:
        """The text with this part in the place of the one there, and without any further one."""
        (start, end), *more = self._spans(text)
        for again in reversed(more):
            text = self._cut(text, *again)
        return text[:start] + self._fitting(part, text) + text[end:]

    def removed(self, text: bytes) -> bytes:
        """The text without the part, as it was before it was added."""
        for start, end in reversed(self._spans(text)):
            text = self._cut(text, start, end)
        return text

    def _cut(self, text: bytes, start: int, end: int) -> bytes:
        eol = self._eol(text)
        before, after = text[:start], text[end:]
        if not after:
            return _shortened(before, eol, self.breaks)
        less = _shortened(before, eol, self.breaks - 1)
        return (less if less.endswith(b"\n") else before) + after.removeprefix(eol)

    def _eol(self, text: bytes) -> bytes:
        return self.eol or (b"\r\n" if b"\r\n" in text else b"\n")

    def _fitting(self, part: bytes, text: bytes) -> bytes:
        return part.replace(b"\n", self._eol(text))

    def _spans(self, text: bytes) -> list[tuple[int, int]]:
        """First and last byte of each part, without the line break after it."""
        spans, begun, at = [], None, 0
        for line in text.splitlines(keepends=True):
            match line.strip():
                case self.start if begun is None:
                    begun = at
                case self.end if begun is not None:
                    spans.append((begun, at + len(line.rstrip(b"\r\n"))))
                    begun = None
            at += len(line)
        if begun is not None:
            raise BrokenFence(self.start, self.end)
        return spans


def _shortened(text: bytes, eol: bytes, times: int) -> bytes:
    for _ in range(times):
        text = text.removesuffix(eol)
    return text
