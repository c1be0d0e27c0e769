"""What a pin has changed, by the record of a requeued job, which 22.05 shows with the nodes of its last run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.state.own_tasks import KEPT
from tiresias.slurm_plugin.state.pins import changes

REQUEST = {"gpus": 8, "gpus_per_node": 8, "tasks": 8, "tasks_per_node": 8}


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ({}, ""),
        ({"gpus": 24, "restarts": 1}, ""),  # of a run on three nodes
        ({"gpus": 24}, "gpus 8 to 24"),  # it has not run
        ({"gpus": 24, "tasks": 24, "restarts": 1}, "tasks 8 to 24, gpus 8 to 24"),
        ({"gpus": 24, "gpus_per_node": 4, "restarts": 1}, "gpus 8 to 24, gpus per node 8 to 4"),
        ({"gpus": 4, "restarts": 1}, "gpus 8 to 4"),
    ],
)
def test_the_gpus_on_the_nodes_of_the_last_run_are_no_change(
    pending: Callable[..., SlurmJob], shown: dict[str, int], words: str
) -> None:
    kept = {name: getattr(pending(**REQUEST), name) for name in KEPT}
    assert changes(kept, pending(**(REQUEST | shown))) == words
