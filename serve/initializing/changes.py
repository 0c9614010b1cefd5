"""A file's change: decided first for all files, so that a refusal finds nothing changed yet, then made."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from serve import replacing


@dataclass(frozen=True, slots=True)
class Change:
    """What is to become of one file.

    `name` is what a person calls it, `said` one word for what happens. `content` is the file's new content; None
    leaves it alone. `gone` deletes it. `aside` is the name that the file there now gets first, `back` a file that
    gets this one's name.
    """

    name: str
    file: Path
    said: str
    content: bytes | None = None
    executable: bool = False
    gone: bool = False
    aside: Path | None = None
    back: Path | None = None
    notes: tuple[str, ...] = field(default=())

    def make(self) -> None:
        """Change the file."""
        if self.aside is not None:
            replacing.rename(self.file, self.aside)
        if self.back is not None:
            replacing.rename(self.back, self.file)
        elif self.gone:
            replacing.delete(self.file)
        elif self.content is not None:
            replacing.replace(self.file, self.content, executable=self.executable)
