"""`lineage index` with an encoder that returns zero vectors: the cost of an index without embedding.

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
from pipeline.malloc import configure_malloc
from pipeline.run import IndexRun, RunOptions
from pipeline.workers import count_usable_cpus
from serve import config
from serve.repositories import locate_index
from stores import locks
from stores.types import EMBEDDING_DIMENSION


@dataclass(frozen=True, slots=True)
class ZeroEncoder:
    """Encoder that returns zero vectors, under the name of the real one."""

    name: str = EMBEDDING_MODEL
    dimension: int = EMBEDDING_DIMENSION

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        import numpy as np

        return np.zeros((len(texts), self.dimension), np.float32)

    def unload(self) -> None:
        """Do nothing."""


def main() -> None:
    config.configure_libraries()
    configure_malloc()
    repository = open_repository(Path(sys.argv[1]))
    location = locate_index(config.load_settings().home, repository)
    with locks.acquire_run_lock(location):
        IndexRun(repository, location, RunOptions(), ZeroEncoder(), count_usable_cpus()).run()


if __name__ == "__main__":
    main()
