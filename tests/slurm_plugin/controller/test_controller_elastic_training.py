"""Real data-parallel training that is resized at random moments: its loss curve is that of a run of a fixed size.

The cluster whose Python is this one's version runs it, with this environment's PyTorch. TIRESIAS_TEST_RESIZES=10 is the longer run.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lazily import imported
from tests.slurm_plugin.controller.centre import Centre
from tests.slurm_plugin.controller.test_controller_elastic import POLICY, sizes
from tests.slurm_plugin.controller.test_controller_training import ENV, PACED, START_S

torch = imported("torch")
pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow, pytest.mark.timeout(1800)]

RESIZES = int(os.environ.get("TIRESIAS_TEST_RESIZES", "2"))
SIZES = (1, 2, 4)
GPUS = 16  # of the cluster
STEPS = 100 * (RESIZES + 2)
EXAMPLE = f"/opt/tiresias/docs/examples/elastic.py {STEPS}"


@pytest.fixture
def centre(centre_of_this_python: Callable[[], Centre]) -> Iterator[Centre]:
    centre = centre_of_this_python()
    policy = {**POLICY, "name": "fifo", "max_preemptions": 1000, "min_run": 0.1}
    centre.restart(
        policy=policy, preemption={"deadline": 120.0, "start_timeout": 20.0}, placement={"trial": "anywhere"}
    )
    yield centre
    centre.stop("KILL")
    centre.clean()


def submit(centre: Centre, name: str, command: str, *options: str) -> str:
    """Submit the example with one rank for each GPU, in /shared/out/NAME; return the job's id."""
    folder = centre.cluster.shared / "out" / name
    folder.mkdir()
    folder.chmod(0o777)
    return centre.submit(
        *options,
        "--ntasks=2",
        "--gpus-per-task=1",
        f"--chdir=/shared/out/{name}",
        gpus=0,
        by="tsbatch",
        command=f"srun {command} {EXAMPLE}",
        env=ENV | {"MASTER_PORT": str(20000 + random.randrange(10000))},
    )


def losses(folder: Path) -> dict[int, tuple[float, int]]:
    """Return the loss of each step, and the number of ranks."""
    lines = [line.split() for line in (folder / "losses").read_text().splitlines()]
    found = {int(step): (float(loss), int(ranks)) for step, loss, ranks in lines}
    assert len(found) == len(lines), "no step is made twice"
    return found


def resize(centre: Centre, job: str, filler: str, gpus: int, after: float) -> str:
    """Leave the job so many GPUs, in the middle of its training, by a job with the others; return that one's id."""
    centre.wait_until(lambda: centre.published(job).get("preemptable"), "it does not train", job, seconds=START_S)
    time.sleep(after)
    if filler:
        centre.cancel(filler, user="bob")
    filler = str(centre.submit(gpus=GPUS - gpus, command="sleep 1000", user="bob"))
    centre.wait_until(lambda: sizes(centre, job)[-1] == gpus, f"it has no {gpus} GPUs", job, filler, seconds=START_S)
    return filler


def test_the_loss_curve_is_that_of_a_fixed_size(centre: Centre) -> None:
    whole = submit(centre, "whole", "python3")
    centre.wait_for_state(whole, "COMPLETED", seconds=START_S)
    job, dice, filler, now = submit(centre, "resized", PACED, "--elastic=1-4"), random.Random(RESIZES), "", 4
    for _ in range(RESIZES):
        now = dice.choice([size for size in SIZES if size != now])
        filler = resize(centre, job, filler, now, dice.uniform(0, 1))
    centre.wait_for_state(job, "COMPLETED", seconds=START_S)
    expected, found = (losses(centre.cluster.shared / "out" / name) for name in ("whole", "resized"))
    assert sorted(found) == list(range(1, STEPS + 1))
    assert max(abs(found[step][0] - expected[step][0]) for step in found) < 1e-9
    assert len({ranks for _, ranks in found.values()}) > 1, "it was resized"
