"""`tiresias checkpoint gc` as root beside a real slurmctld: checkpoints of jobs that it has stay, those of ended jobs go."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.slurm_plugin.controller.centre import ROOTS, Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
ROOT = ROOTS["TIRESIAS_CHECKPOINT_ROOT"]
GC = ["tiresias", "checkpoint", "gc", "--json", ROOT]


def removed(centre: Centre) -> set[str]:
    """Return the folders of which gc removed something."""
    found: dict[str, Any] = json.loads(centre.cluster.run(GC, user="root").stdout)
    return {name.partition("/")[0] for name in found["removed"]}


def test_checkpoints_of_ended_jobs_are_removed(centre: Centre) -> None:
    array = centre.train("--array=1-2%1", gpus=1, seconds=300, habit="hangs")  # saves at its fifth step
    running, ended = f"{array}_1", centre.train(gpus=1, seconds=2, habit="hangs")
    centre.wait_for_state(ended, "COMPLETED")
    folders = {job: centre.cluster.shared / "tiresias/checkpoints" / job for job in (running, ended)}
    for job, folder in folders.items():
        centre.wait_until(lambda folder=folder: any(folder.glob("step-*")), "it has not saved", job)
    centre.cluster.run(["find", ROOT, "-mindepth", "1", "-exec", "touch", "-d", "@0", "{}", "+"], user="root")
    gone = removed(centre)  # with those of other tests' jobs, which have ended
    assert ended in gone
    assert running not in gone
    assert not folders[ended].exists()
    assert any(folders[running].glob("step-*"))
    assert removed(centre) == set()
