"""Real training with parameter servers whose workers and servers change: its losses and samples are those of a single process."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lazily import imported
from tests.slurm_plugin.controller.centre import Centre
from tests.slurm_plugin.controller.test_controller_elastic import numbers
from tests.slurm_plugin.controller.test_controller_elastic_training import (
    BATCH,
    EXAMPLES,
    GPUS,
    RECORDED,
    centre,  # noqa: F401 - a fixture
    resize,
    samples,
)
from tests.slurm_plugin.controller.test_controller_training import ENV, PACED, START_S

torch = imported("torch")
pytestmark = [pytest.mark.sandbox, pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(1800)]

STEPS = 1500
SIZES = ((4, 2), (2, 1), (4, 2), (2, 1))  # workers and servers of each run


def losses_alone(folder: Path) -> list[float]:
    """Return the losses of the same training by one process, with an optimizer of PyTorch."""
    program = Path(__file__).parents[3] / "docs/examples/elastic.py"
    env = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(20000 + random.randrange(10000)),
        "OMP_NUM_THREADS": "1",
    }
    subprocess.run([sys.executable, program, str(STEPS)], cwd=folder, env=env, check=True, timeout=START_S)
    return [float(line.split()[1]) for line in (folder / "losses").read_text().splitlines()]


def test_losses_and_samples_are_those_of_a_single_process(centre: Centre, tmp_path: Path) -> None:  # noqa: F811
    folder = centre.cluster.shared / "out" / "servers"
    folder.mkdir()
    folder.chmod(0o777)
    program = f"{EXAMPLES}/elastic_servers.py"
    step = "srun --exact --cpus-per-task=2"
    servers = f"{step} --gres=none --ntasks=$TIRESIAS_SERVERS python3 {program} server"
    request = (
        "--elastic=1-4",
        "--servers=1-2",
        "--ntasks=4",
        "--gpus-per-task=1",
        "--cpus-per-task=2",
        "--job-name=servers",
    )
    job = centre.submit(
        *request,
        "--chdir=/shared/out/servers",
        gpus=0,
        by="tsbatch",
        command=f"export WORKERS=$SLURM_NTASKS; {servers} & {step} {PACED} {RECORDED} {program} worker {STEPS}",
        env=ENV | {"MASTER_PORT": str(20000 + random.randrange(10000))},
    )
    filler = centre.submit(gpus=GPUS - SIZES[0][0], command="sleep 10000", user="bob")
    for workers, _ in SIZES[1:]:
        filler = resize(centre, job, filler, workers, 0.0)
    centre.wait_for_state(job, "COMPLETED", seconds=START_S)
    assert numbers(centre, job) == list(SIZES)
    lines = [line.split() for line in (folder / "losses").read_text().splitlines()]
    assert [int(line[0]) for line in lines] == list(range(1, STEPS + 1)), "each step once"
    assert {(int(line[2]), int(line[3])) for line in lines} == set(SIZES)
    alone = losses_alone(tmp_path)
    assert max(abs(float(line[1]) - loss) for line, loss in zip(lines, alone, strict=True)) < 1e-9
    seen = samples(folder)
    assert set(seen.values()) == {1}, "each sample once in an epoch"
    assert len(seen) == STEPS * BATCH
    assert centre.query_journal(f"select rigid from job where id = '{job}'") == [("",)], (
        "servers are not counted as ranks"
    )
