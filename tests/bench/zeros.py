"""`lineage index` with an encoder that answers zeros: everything an index costs but embedding.

python -m tests.bench.zeros PATH
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

from pipeline import allocator
from pipeline.encoder import EMBEDDING_MODEL
from pipeline.git.repository import open_repository
from pipeline.workers import usable_cpus
from serve import settings
from serve.indexing import workers_for
from serve.placing import place_of
from stores import runs
from stores.versions import EMBEDDING_DIMENSION


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
    settings.calm_libraries()
    allocator.spare()
    repository = open_repository(Path(sys.argv[1]))
    place = place_of(settings.read().home, repository)
    with runs.sole_run(place), workers_for(repository, place, usable_cpus()) as workers:
        from pipeline.run import Options, Pass  # as `lineage index` does it, while the workers import

        Pass(repository, place, Options(), ZeroEncoder(), workers).run()


if __name__ == "__main__":
    main()
