"""`lineage index` with an encoder that answers zeros: everything an index costs but embedding.

python -m tests.bench.index_without_embedding PATH
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

from pipeline.encoders.base import EMBEDDING_MODEL
from pipeline.git.repository import open_repository
from pipeline.malloc import limit_malloc_arenas
from pipeline.workers import usable_cpus
from serve import config
from serve.cli.index import workers_for
from serve.repositories import place_of
from stores import locks
from stores.types import EMBEDDING_DIMENSION


@dataclass(frozen=True, slots=True)
class ZeroEncoder:
    """An encoder that costs nothing. It takes the real one's name: nobody searches what it made."""

    name: str = EMBEDDING_MODEL
    dimension: int = EMBEDDING_DIMENSION

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        import numpy as np

        return np.zeros((len(texts), self.dimension), np.float32)

    def unload(self) -> None:
        """There is nothing."""


def main() -> None:
    config.calm_libraries()
    limit_malloc_arenas()
    repository = open_repository(Path(sys.argv[1]))
    place = place_of(config.read().home, repository)
    with locks.sole_run(place), workers_for(repository, place, usable_cpus()) as workers:
        from pipeline.run import Options, Pass  # as `lineage index` does it, while the workers import

        Pass(repository, place, Options(), ZeroEncoder(), workers).run()


if __name__ == "__main__":
    main()
