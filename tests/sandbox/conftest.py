"""`own`: clusters of one test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sandbox.cluster_tools import NAMESPACES
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec


@pytest.fixture
def own() -> Iterator[Callable[..., Cluster]]:
    """Starts a cluster for one test, because the test ends it."""
    made: list[Cluster] = []

    def up(**options: object) -> Cluster:
        spec = ClusterSpec(**{"name": f"own-{os.getpid()}-{len(made)}", "nodes": 2, **options})  # type: ignore[arg-type]
        made.append(Cluster.up(spec, report=print))
        NAMESPACES[made[-1].folder] = str(Path(f"/proc/{made[-1].init.pid}/ns/net").readlink())
        return made[-1]

    yield up
    for cluster in made:
        cluster.down()
