"""PyTorch through the service as a user submits it: preempted by the running controller, and with DDP's hook.

The cluster whose Python is this one's version runs it, with this environment's PyTorch.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lazily import imported
from tests.services.parameter_service.service_on_slurm import Service, until
from tests.slurm_plugin.controller.centre import Centre
from tests.slurm_plugin.controller.test_controller_training import ENV, START_S, weights

torch = imported("torch")
ddp = imported("tests.services.parameter_service.test_ddp_hook")
pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(1800)]

STEPS, PREEMPTIONS, HOOK_STEPS = 250, 1, 150
PACED, SLOWER = (f"python3 /opt/tiresias/tests/checkpoint/adapters/paced.py {seconds}" for seconds in (0.02, 0.1))
EXAMPLE = "/opt/tiresias/docs/examples/service.py"
ADAM = "/opt/tiresias/tests/services/parameter_service/adam_example.py"
REGISTERED = (
    "exec python3 -m tiresias.services.parameter_service.agent.register --manager /shared/service/published.json "
    "--servers 1 --workers 2 --"
)


@pytest.fixture
def centre(training_centre: Centre) -> Centre:
    return training_centre


@pytest.fixture
def service(centre: Centre) -> Iterator[Service]:
    made = Service(centre.cluster, 4, period_s=1.0)
    made.lead()
    yield made
    made.end()


def submit(centre: Centre, name: str, program: str, by: str, **env: str) -> str:
    """Submit two ranks on two nodes, with all GPUs of these."""
    folder = centre.cluster.shared / "out" / name
    folder.mkdir()
    folder.chmod(0o777)
    command = f"{REGISTERED} {'tsrun' if by == 'tsbatch' else 'srun'} {program}"
    size = ("--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=4", f"--chdir=/shared/out/{name}")
    return centre.submit(*size, gpus=0, by=by, command=command, env=ENV | env)


def preempt(centre: Centre, job: str) -> None:
    """Submit a short job that needs one of the job's nodes, when that trains."""
    centre.wait_until(lambda: centre.published(job).get("preemptable"), "the job does not train", job, seconds=START_S)
    small = centre.submit("--nodes=3", "--gpus-per-node=4", gpus=0, command="sleep 0.2", user="bob")
    centre.wait_for_state(small, "COMPLETED", seconds=START_S)


@pytest.mark.parametrize("program", [EXAMPLE, pytest.param(ADAM, marks=pytest.mark.long)])
def test_a_preempted_job_parks_its_tensors_and_resumes_them(centre: Centre, service: Service, program: str) -> None:
    name = Path(program).stem
    whole = submit(centre, f"{name}-whole", f"python3 {program} {STEPS}", by="sbatch")
    centre.wait_for_state(whole, "COMPLETED", seconds=START_S)
    job = submit(centre, name, f"{PACED} {program} {STEPS}", by="tsbatch")
    for _ in range(PREEMPTIONS):
        preempt(centre, job)
    record = centre.wait_for_state(job, "COMPLETED", seconds=START_S)
    assert record["Restarts"] == str(PREEMPTIONS), centre.output(job)
    log = centre.output(job)
    assert log.count(f"job slurm-{job} has ended") == 1 + PREEMPTIONS, log  # it holds no aggregator while it waits
    saved, resumed = (
        [int(step) for step in re.findall(rf"{word} step (\d+)", log)] for word in ("saved", "resumes from")
    )
    assert saved == resumed
    assert len(saved) == PREEMPTIONS
    assert weights(centre.cluster.shared / "out" / name) == weights(centre.cluster.shared / "out" / f"{name}-whole")
    assert not (centre.cluster.shared / "out" / name / f"service-slurm-{job}.json").exists()
    until(lambda: not service.queued(), service.queued)


@pytest.mark.long
def test_the_hook_of_ddp_while_the_manager_is_killed(centre: Centre, service: Service) -> None:
    """The manager places the tensors of one bucket after the other; after the kill it knows all of them."""
    program = f"{SLOWER} /opt/tiresias/tests/services/parameter_service/ddp_rank.py hook {HOOK_STEPS} /shared/out/hook"
    path = {"PYTHONPATH": f"{ENV['PYTHONPATH']}:/opt/tiresias", "MASTER_PORT": str(20000 + random.randrange(10000))}
    job, folder = submit(centre, "hook", program, by="sbatch", **path), centre.cluster.shared / "out/hook"
    centre.wait_until((folder / "checkpoints/step-10").exists, "no step is saved", job, seconds=START_S)
    until(
        lambda: shown_tensors(service, job) == len(list(ddp.network().parameters())), lambda: service.seen("tiresias")
    )
    service.kill()
    killed = time.time()
    service.start()
    report = centre.cluster.shared / "service/report/report.json"
    until(lambda: json.loads(report.read_text())["time"] > killed + 1, report.read_text)
    assert shown_tensors(service, job) == len(list(ddp.network().parameters())), "from the journal"
    centre.wait_for_state(job, "COMPLETED", seconds=START_S)
    assert f"job slurm-{job} has ended" in centre.output(job)
    expected = ddp.alone(HOOK_STEPS)
    for rank in range(2):
        assert torch.equal(torch.load(folder / f"{rank}.pt", weights_only=True), expected)
    until(lambda: not service.queued(), service.queued)


def shown_tensors(service: Service, job: str) -> int:
    jobs = service.seen("tiresias")["jobs"]
    return next((int(each["tensors"]) for each in jobs if each["name"] == f"slurm-{job}"), 0)
