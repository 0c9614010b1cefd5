"""Words -> rows of a table: the most widely used have one each, all others share buckets by their hash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np

from training.lessons import Lessons

# A word of fewer histories is theirs alone: a name, a key, a slip.
FEWEST_HISTORIES: Final = 3


def chosen(files: Iterable[Path], size: int) -> list[str]:
    """The words that most histories use, and of equally spread ones those in most bags."""
    spread: Counter[str] = Counter()
    often: Counter[str] = Counter()
    for file in files:
        lessons = Lessons.read(file)
        counts = np.bincount(lessons.flat, minlength=len(lessons.words))
        spread.update(lessons.words)
        # No history's own favourites weigh more than what several share.
        often.update({word: min(int(n), 200) for word, n in zip(lessons.words, counts, strict=True)})
    wide = [word for word, histories in spread.items() if histories >= FEWEST_HISTORIES]
    return sorted(wide, key=lambda word: (-often[word], word))[:size]
