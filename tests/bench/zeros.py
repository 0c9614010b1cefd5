"""`lineage index` with an encoder that answers zeros: everything an index costs but embedding.

python -m tests.bench.zeros PATH
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.encoder import EMBEDDING_MODEL
from pipeline.git.repository import open_repository
from pipeline.run import Options, Pass
from pipeline.workers import usable_cpus
from serve import settings
from serve.standing import place_of
from stores.versions import EMBEDDING_DIMENSION


@dataclass(frozen=True, slots=True)
class ZeroEncoder:
    """An encoder that costs nothing. It takes the real one's name: nobody searches what it made."""

    name: str = EMBEDDING_MODEL
    dimension: int = EMBEDDING_DIMENSION

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.zeros((len(texts), self.dimension), np.float32)


def main() -> None:
    settings.calm_algebra()
    repository = open_repository(Path(sys.argv[1]))
    place = place_of(settings.read().home, repository)
    Pass(repository, place, Options(workers=usable_cpus()), ZeroEncoder()).run()


if __name__ == "__main__":
    main()
