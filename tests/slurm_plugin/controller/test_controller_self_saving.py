"""Programs that save by themselves, without the checkpoint API, preempted three times by the running controller.

Each imports PyTorch eight times. `make test-ci` has the same path with small programs: test_controller_self_saving_failures.py and
test_controller_examples.py.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.lazily import imported
from tests.slurm_plugin.controller.centre import Centre

torch = imported("torch")
pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]

PREEMPTIONS = 3
START_S = 300.0  # to import PyTorch on two cores during other tests
ENV = {"PYTHONPATH": "/shared/packages:/opt/tiresias/src", "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
PACED = "python3 /opt/tiresias/tests/checkpoint/adapters/paced.py 0.05"
TRANSFORMERS = "/opt/tiresias/docs/examples/self_saving_transformers.py"
HERE = "/opt/tiresias/tests/slurm_plugin/controller"
TORCHRUN = f"python3 -m torch.distributed.run --standalone --nproc-per-node=2 {HERE}/elastic_train.py"


@pytest.fixture
def centre(training_centre: Centre) -> Centre:
    return training_centre


def folder(centre: Centre, name: str) -> Path:
    found: Path = centre.cluster.shared / "out" / name
    found.mkdir()
    found.chmod(0o777)
    return found


def submit(centre: Centre, where: Path, command: str, by: str, **env: str) -> str:
    """Submit a job on all GPUs of the cluster, so that any other job needs some of them."""
    size = ["--nodes=4", "--ntasks-per-node=1", "--gpus-per-node=4"] if by == "tsbatch" else ["--nodes=1"]
    return centre.submit(*size, f"--chdir=/shared/out/{where.name}", gpus=0, by=by, command=command, env=ENV | env)


def lines(where: Path) -> int:
    path = where / "losses"
    return len(path.read_text().splitlines()) if path.exists() else 0


def preempt(centre: Centre, job: str, where: Path, after: float) -> None:
    """Submit a short job that needs the job's GPUs, `after` seconds after the run's first step."""
    before = lines(where)
    centre.wait_until(
        lambda: lines(where) > before or centre.state(job) in ("COMPLETED", "FAILED"), "no step", job, seconds=START_S
    )
    centre.wait_until(lambda: centre.published(job).get("preemptable"), "its receivers are not registered", job)
    time.sleep(after)
    small = centre.submit(command="sleep 0.2", user="bob")
    centre.wait_for_state(small, "COMPLETED", seconds=START_S)


def curve(where: Path) -> dict[int, str]:
    """Return the loss of each step. A step that was trained twice has the same loss in both runs."""
    found: dict[int, str] = {}
    for line in (where / "losses").read_text().splitlines():
        step, loss = line.split()
        assert found.setdefault(int(step), loss) == loss, f"step {step} has two losses"
    return found


def weights(where: Path) -> dict[str, bytes]:
    found = torch.load(where / "weights.pt", weights_only=True)
    return {name: tensor.numpy().tobytes() for name, tensor in found.items()}


def same_curve(centre: Centre, name: str, plain: str, slow: str, steps: int, option: str) -> str:
    """Preempt a job three times, compare its curve with that of an undisturbed job, and return its log."""
    whole, interrupted = folder(centre, f"{name}-whole"), folder(centre, name)
    centre.wait_for_state(submit(centre, whole, plain, "sbatch"), "COMPLETED", seconds=START_S)
    job = submit(centre, interrupted, slow, "tsbatch", TIRESIAS_CHECKPOINT=option)
    moments = random.Random(PREEMPTIONS)
    for _ in range(PREEMPTIONS):
        preempt(centre, job, interrupted, moments.uniform(0, 0.5))
    assert centre.wait_for_state(job, "COMPLETED", seconds=START_S)["Restarts"] == str(PREEMPTIONS), centre.output(job)
    assert curve(interrupted) == curve(whole), centre.output(job)
    assert sorted(curve(whole)) == list(range(1, steps + 1))
    assert weights(interrupted) == weights(whole)
    log = str(centre.output(job))
    assert log.count("saved by itself") == PREEMPTIONS, log
    return log


def test_the_trainer_of_transformers_saves_on_sigterm(centre: Centre) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed (make test installs it)")
    plain, slow = f"python3 {TRANSFORMERS} 240", f"{PACED} {TRANSFORMERS} 240"
    log = same_curve(centre, "jit", plain, slow, 240, "signal:TERM:output/checkpoint-*")
    assert log.count("sent SIGTERM to 1 processes here") == PREEMPTIONS


def test_ranks_of_torchrun_save_on_sigterm(centre: Centre) -> None:
    log = same_curve(centre, "elastic", f"{TORCHRUN} 200 0", f"{TORCHRUN} 200 0.05", 200, "signal:TERM:out")
    assert "sent SIGTERM to 2 processes here" in log, "the ranks, and not torchrun"


def test_lightning_saves_by_itself_and_its_own_requeue_is_intercepted(centre: Centre) -> None:
    pytest.importorskip("lightning", reason="lightning is not installed (make test installs it)")
    command = f"srun --nodes=1 --ntasks=1 python3 {HERE}/lightning_train.py 150"
    log = same_curve(centre, "lightning", f"{command} 0", f"{command} 0.05", 150, "signal:USR1:root")
    assert log.count("preemption requested: sent SIGUSR1") == PREEMPTIONS
    assert "Requeued SLURM job" not in log, "two requeues would compete"
