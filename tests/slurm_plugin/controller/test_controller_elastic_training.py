"""Real training that is resized at random moments: its loss curve and its samples are those of a run of a fixed size.

The cluster whose Python is this one's version runs it, with this environment's PyTorch. TIRESIAS_TEST_RESIZES=30
is the longer run: 1 -> 2 -> 4 -> 1, ten times.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lazily import imported
from tests.slurm_plugin.controller.centre import Centre
from tests.slurm_plugin.controller.test_controller_elastic import POLICY, sizes
from tests.slurm_plugin.controller.test_controller_training import ENV, PACED, PLAIN, START_S

torch = imported("torch")
pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow, pytest.mark.timeout(3600)]

RESIZES = int(os.environ.get("TIRESIAS_TEST_RESIZES", "2"))
CYCLE = (2, 4, 1)  # after the first size, 1
GPUS = 16  # of the cluster
STEPS = 200 * (RESIZES + 2)  # four seconds of paced training for each run
BATCH, SAMPLES = 48, 960  # of a step, of an epoch
EXAMPLES = "/opt/tiresias/docs/examples"
COST = Path(__file__).parents[3] / "bench/resize_cost.py"
RECORDED = "/opt/tiresias/tests/checkpoint/adapters/recorded.py"


@pytest.fixture
def centre(centre_of_this_python: Callable[[], Centre]) -> Iterator[Centre]:
    centre = centre_of_this_python()
    # A sizing that does not weigh what a resize costs: on a slow machine that is more than a short training gains.
    policy = {**POLICY, "name": "fifo", "sizing": "drf", "max_preemptions": 1000, "min_run": 0.1}
    centre.restart(
        policy=policy, preemption={"deadline": 120.0, "start_timeout": 20.0}, placement={"trial": "anywhere"}
    )
    yield centre
    centre.stop("KILL")
    centre.clean()


def submit(centre: Centre, name: str, program: str, command: str, *options: str) -> str:
    """Submit an example with one rank for each GPU, in /shared/out/NAME; return the job's id."""
    folder = centre.cluster.shared / "out" / name
    folder.mkdir()
    folder.chmod(0o777)
    return centre.submit(
        *options,
        "--ntasks=2",
        "--gpus-per-task=1",
        f"--job-name={name}",  # of its own: under one name, a job whose sizes differ from the job before starts as requested
        f"--chdir=/shared/out/{name}",
        gpus=0,
        by="tsbatch",
        command=f"srun {command} {EXAMPLES}/{program} {STEPS}",
        env=ENV | {"MASTER_PORT": str(20000 + random.randrange(10000))},
    )


def losses(folder: Path) -> dict[int, tuple[float, int]]:
    """Return the loss of each step, and the number of ranks."""
    lines = [line.split() for line in (folder / "losses").read_text().splitlines()]
    found = {int(step): (float(loss), int(ranks)) for step, loss, ranks in lines}
    assert len(found) == len(lines), "no step is made twice"
    return found


def samples(folder: Path) -> Counter[tuple[int, int]]:
    """Return how often each sample was trained on in each epoch, by (epoch, index)."""
    lines = [line.split() for file in folder.glob("samples-*") for line in file.read_text().splitlines()]
    return Counter((int(epoch), int(index)) for epoch, index in lines)


def resize(centre: Centre, job: str, filler: str, gpus: int, after: float) -> str:
    """Leave the job so many GPUs, in the middle of its training, by a job with the others; return that one's id.

    The controller is stopped while one job replaces the other: it would give the job all GPUs between the two.
    """
    centre.wait_until(lambda: centre.published(job).get("preemptable"), "it does not train", job, seconds=START_S)
    time.sleep(after)
    centre.freeze()
    try:
        centre.cancel(filler, user="bob")
        centre.wait_for_state(filler, "CANCELLED")
        filler = str(centre.submit(gpus=GPUS - gpus, command="sleep 10000", user="bob"))
    finally:
        centre.thaw()
    centre.wait_until(lambda: sizes(centre, job)[-1] == gpus, f"it has no {gpus} GPUs", job, filler, seconds=START_S)
    return filler


@pytest.mark.parametrize("program", ["elastic.py", pytest.param("elastic_fsdp.py", marks=pytest.mark.long)])
def test_losses_and_samples_are_those_of_a_fixed_size(centre: Centre, program: str) -> None:
    whole = submit(centre, f"whole-{program}", program, PLAIN)
    centre.wait_for_state(whole, "COMPLETED", seconds=START_S)
    filler, dice = str(centre.submit(gpus=GPUS - 1, command="sleep 10000", user="bob")), random.Random(RESIZES)
    centre.wait_for_state(filler, "RUNNING")
    job = submit(centre, f"resized-{program}", program, f"{PACED} {RECORDED}", "--elastic=1-4")
    for place in range(RESIZES):
        filler = resize(centre, job, filler, CYCLE[place % len(CYCLE)], dice.uniform(0, 1))
    centre.wait_for_state(job, "COMPLETED", seconds=START_S)
    expected, found = (losses(centre.cluster.shared / "out" / f"{name}-{program}") for name in ("whole", "resized"))
    assert sorted(found) == list(range(1, STEPS + 1))
    difference = max(abs(found[step][0] - expected[step][0]) for step in found)
    assert difference < 1e-9
    seen = samples(centre.cluster.shared / "out" / f"resized-{program}")
    assert set(seen.values()) == {1}, "each sample once in an epoch"
    assert len(seen) == STEPS * BATCH
    assert all((epoch, index) in seen for epoch in range(STEPS * BATCH // SAMPLES) for index in range(SAMPLES))
    measured = json.loads(subprocess.check_output([sys.executable, COST, centre.journal_file]))
    assert measured["resizes"] == RESIZES
    print(json.dumps({"program": program, "sizes": sizes(centre, job), "difference": difference, **measured}))


def test_torchrun_with_a_range_of_nodes_is_left_alone(centre: Centre) -> None:
    """Its elasticity is within the allocation of a job of a fixed size, which the controller does not resize."""
    port = 20000 + random.randrange(10000)
    rendezvous = f"--rdzv-backend=c10d --rdzv-id=1 --rdzv-endpoint=127.0.0.1:{port}"
    torchrun = f"python3 -m torch.distributed.run --nnodes=1:2 --nproc-per-node=2 {rendezvous}"
    folder = centre.cluster.shared / "out" / "torchrun"
    folder.mkdir()
    folder.chmod(0o777)
    request = ("--ntasks=2", "--gpus-per-task=1", "--chdir=/shared/out/torchrun")
    job = centre.submit(*request, gpus=0, by="tsbatch", command=f"{torchrun} {EXAMPLES}/elastic.py 60", env=ENV)
    centre.wait_for_state(job, "COMPLETED", seconds=START_S)
    assert {ranks for _, ranks in losses(folder).values()} == {2}
    assert sizes(centre, job) == [2]
    assert centre.query_journal(f"select elastic, rigid from job where id = '{job}'") == [("", "")]
