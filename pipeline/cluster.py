"""Embedding on a Dask cluster.

Only texts travel to the workers, and only vectors back. The workers need this package, but no repository and no index.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import Final

from pipeline.encoders import base
from stores.errors import LineageError

CONNECT_SECONDS: Final = 10
DISTRIBUTION: Final = "history-lineage"


class ClusterUnavailable(LineageError):
    """The cluster cannot be reached, has no workers, or has workers of another version."""


@contextmanager
def use_cluster(scheduler: str) -> Iterator[int]:
    """Run the tasks of joblib on the workers of this Dask scheduler, during the body of the `with` statement.

    Yields the number of threads of the cluster. `scheduler`: address such as `tcp://host:8786`.
    Raises ClusterUnavailable before any work is sent.
    """
    import joblib

    try:
        from distributed import Client
    except ImportError as error:
        raise ClusterUnavailable(
            "The package `distributed` is not installed.",
            hint="Run `pip install 'history-lineage[distributed]'`, here and on every worker.",
        ) from error
    try:
        client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterUnavailable(
            f"No Dask scheduler answers at {scheduler}.",
            hint="Start one with `dask scheduler`, and workers with `dask worker ADDRESS --nthreads 1`.",
        ) from error
    with client:
        _check_workers(client.run(describe_worker, on_error="return"), scheduler)
        with joblib.parallel_config(backend="dask", n_jobs=-1, client=client):
            yield sum(client.nthreads().values())


def describe_worker() -> str:
    """Return the version of this package and a digest of its models; equal ones give equal vectors."""
    checksums = (base.MODELS_DIR / base.CHECKSUM_FILE).read_bytes()
    return f"{metadata.version(DISTRIBUTION)}, models {hashlib.sha256(checksums).hexdigest()[:12]}"


def _check_workers(descriptions: dict[str, object], scheduler: str) -> None:
    """Raise ClusterUnavailable unless all workers have this package in this version. `descriptions`: by address."""
    if not descriptions:
        raise ClusterUnavailable(
            f"The Dask scheduler at {scheduler} has no workers.",
            hint=f"Start some with `dask worker {scheduler} --nthreads 1`.",
        )
    expected = describe_worker()
    for address, description in sorted(descriptions.items()):
        if description != expected:
            raise ClusterUnavailable(
                f"The Dask worker {address} cannot embed for this index: {description}. This machine has {expected}.",
                hint="Install the same version of history-lineage on every worker, and restart them.",
            )
