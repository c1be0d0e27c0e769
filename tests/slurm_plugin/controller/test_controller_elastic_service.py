"""An elastic job of the parameter service: the controller changes its size by Optimus' sizing, and its ranks register anew.

Each run has another number of workers and the same global batch, so that the final weights are those of one process.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lazily import imported
from tests.services.parameter_service.service_on_slurm import Service, until
from tests.slurm_plugin.controller.centre import Centre
from tests.slurm_plugin.controller.test_controller_elastic import POLICY, sizes
from tests.slurm_plugin.controller.test_controller_elastic_training import GPUS, resize
from tests.slurm_plugin.controller.test_controller_training import ENV, PACED, START_S

torch = imported("torch")
pytestmark = [pytest.mark.sandbox, pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(1800)]

STEPS, BAR = 900, 1e-6
SIZES = (1, 4, 2)
PROGRAM = "/opt/tiresias/tests/services/parameter_service/elastic_service.py"
REGISTER = (
    "exec python3 -m tiresias.services.parameter_service.agent.register --manager /shared/service/published.json "
    "--servers 1 --workers $SLURM_NTASKS --"
)


@pytest.fixture
def centre(centre_of_this_python: Callable[[], Centre]) -> Iterator[Centre]:
    centre = centre_of_this_python()
    policy = {**POLICY, "name": "fifo", "sizing": "marginal_gain", "max_preemptions": 1000, "min_run": 0.1}
    centre.restart(
        policy=policy, preemption={"deadline": 120.0, "start_timeout": 20.0}, placement={"trial": "anywhere"}
    )
    yield centre
    centre.stop("KILL")
    centre.clean()


@pytest.fixture
def service(centre: Centre) -> Iterator[Service]:
    made = Service(centre.cluster, 2, period_s=1.0)
    made.lead()
    yield made
    made.end()


def weights_alone(folder: Path) -> dict[str, Any]:
    """The weights of the same training by one process, with an optimizer of PyTorch."""
    program = Path(__file__).parents[3] / "docs/examples/elastic.py"
    port = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20000 + random.randrange(10000)), "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, program, str(STEPS)], cwd=folder, env={**os.environ, **port}, check=True, timeout=START_S
    )
    found: dict[str, Any] = torch.load(folder / "weights.pt", weights_only=True)
    return found


def test_a_resized_job_registers_its_new_size_and_its_weights_are_right(
    centre: Centre, service: Service, tmp_path: Path
) -> None:
    folder = centre.cluster.shared / "out/elastic-service"
    folder.mkdir()
    folder.chmod(0o777)
    filler = str(centre.submit(gpus=GPUS - SIZES[0], command="sleep 10000", user="bob"))
    centre.wait_for_state(filler, "RUNNING")
    request = ("--elastic=1-4", "--ntasks=2", "--gpus-per-task=1", "--job-name=elastic-service")
    job = centre.submit(
        *request,
        "--chdir=/shared/out/elastic-service",
        gpus=0,
        by="tsbatch",
        command=f"{REGISTER} tsrun {PACED} {PROGRAM} {STEPS}",
        env=ENV,
    )
    for gpus in SIZES[1:]:
        filler = resize(centre, job, filler, gpus, 1.0)
    centre.wait_for_state(job, "COMPLETED", seconds=START_S)
    assert sizes(centre, job) == list(SIZES)
    runs = [tuple(map(int, line.split())) for line in (folder / "sizes").read_text().splitlines()]
    assert [ranks for _, ranks, _ in runs] == list(SIZES), "each run has registered its own number of workers"
    assert [step for step, _, _ in runs] == sorted({step for step, _, _ in runs}), (
        "each resumed where the last one saved"
    )
    log = centre.output(job)
    assert log.count(f"job slurm-{job} has ended") == len(SIZES), log
    trained, alone = torch.load(folder / "weights.pt", weights_only=True), weights_alone(tmp_path)
    difference = max(float((trained[name] - alone[name]).abs().max() / alone[name].abs().max()) for name in alone)
    print(f"sizes {sizes(centre, job)}, resumed at {[step for step, _, _ in runs]}, difference {difference:.1e}")
    assert difference <= BAR
    until(lambda: not service.queued(), service.queued)
