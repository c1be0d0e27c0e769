"""Real data-parallel training over four nodes, preempted at random moments by the running controller.

The cluster whose Python is this one's version runs it, with this environment's PyTorch. TIRESIAS_TEST_PREEMPTIONS=20 is the
longer run.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import time
from pathlib import Path

import pytest

from tests.lazily import imported
from tests.slurm_plugin.controller.centre import Centre

torch = imported("torch")
pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow, pytest.mark.timeout(1800)]

PREEMPTIONS = int(os.environ.get("TIRESIAS_TEST_PREEMPTIONS", "3"))
STEPS = 125 * (PREEMPTIONS + 1)  # 2.5 seconds of paced training for each run
MAX_TRAINING_S = 1.5  # from a run's first step until the job that preempts it is submitted
START_S = 600.0  # four ranks import PyTorch on two cores, perhaps during other tests
EXAMPLE = "/opt/tiresias/docs/examples/ddp.py"
PLAIN, PACED = (f"python3 /opt/tiresias/tests/checkpoint/adapters/paced.py {seconds}" for seconds in (0, 0.02))
EXAMPLES = Path(__file__).parents[3] / "docs/examples"
ROOTS = {
    "TIRESIAS_CONTROL_ROOT": "/shared/tiresias/control",
    "TIRESIAS_CHECKPOINT_ROOT": "/shared/tiresias/checkpoints",
}
ENV = {
    "PYTHONPATH": "/shared/packages:/opt/tiresias/src",
    "MASTER_ADDR": "127.0.0.1",
    "OMP_NUM_THREADS": "1",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}


@pytest.fixture
def centre(training_centre: Centre) -> Centre:
    return training_centre


def submit(centre: Centre, name: str, command: str, by: str) -> str:
    """Submit four ranks on four nodes, all GPUs of the cluster, in /shared/out/NAME; return the job's id."""
    folder = centre.cluster.shared / "out" / name
    folder.mkdir()
    folder.chmod(0o777)
    port = 20000 + random.randrange(10000)
    command = f"srun {command} {EXAMPLE} {STEPS}"
    return centre.submit(
        "--nodes=4",
        "--ntasks-per-node=1",
        "--gpus-per-node=4",
        f"--chdir=/shared/out/{name}",
        gpus=0,
        by=by,
        command=command,
        env=ENV | {"MASTER_PORT": str(port)},
    )


def preempt(centre: Centre, large: str, after: float) -> None:
    """Submit a short job that needs nodes of the large one, `after` seconds after the first step of the latter."""

    def is_known() -> bool:
        """Return whether it can be preempted, or has ended before."""
        return centre.published(large).get("preemptable", False) or centre.state(large) in (
            "COMPLETED",
            "FAILED",
            "CANCELLED",
        )

    centre.wait_until(is_known, "the large job does not train", large, seconds=START_S)
    assert centre.published(large).get("preemptable"), centre.output(large)
    time.sleep(after)
    small = centre.submit(command="sleep 0.2", user="bob")
    centre.wait_for_state(small, "COMPLETED", seconds=START_S)


def weights(folder: Path) -> dict[str, bytes]:
    found = torch.load(folder / "weights.pt", map_location="cpu", weights_only=True)
    return {name: tensor.numpy().tobytes() for name, tensor in found.items()}


@pytest.mark.long
def test_preempted_at_random_moments_the_weights_are_the_same_bytes(centre: Centre) -> None:
    whole = submit(centre, "whole", PLAIN, by="sbatch")
    centre.wait_for_state(whole, "COMPLETED", seconds=START_S)
    large = submit(centre, "large", PACED, by="tsbatch")
    moments = random.Random(PREEMPTIONS)
    for _ in range(PREEMPTIONS):
        preempt(centre, large, moments.uniform(0, MAX_TRAINING_S))
    assert centre.wait_for_state(large, "COMPLETED", seconds=START_S)["Restarts"] == str(PREEMPTIONS), centre.output(
        large
    )
    assert weights(centre.cluster.shared / "out/large") == weights(centre.cluster.shared / "out/whole")
    saved, resumed = (
        [int(step) for step in re.findall(rf"{word} step (\d+)", centre.output(large))]
        for word in ("saved", "resumes from")
    )
    assert saved == resumed == sorted(set(saved)), "no step is lost, none is done twice"
    assert len(saved) == PREEMPTIONS


LONG = ("ddp.sh", "fsdp.sh", "with_lightning.sh", "with_transformers.sh")  # test_examples.py runs their programs


@pytest.mark.parametrize("script", ["plain.sh", *(pytest.param(name, marks=pytest.mark.long) for name in LONG)])
def test_the_scripts_of_the_examples_run_unchanged(centre: Centre, script: str) -> None:
    """Only the size differs: two nodes with a rank each, where the script requests several nodes."""
    sizes = ["--nodes=2", "--ntasks-per-node=1"] if "nodes" in (EXAMPLES / script).read_text() else []
    folder = centre.cluster.shared / "out" / script
    shutil.copytree(EXAMPLES, folder)
    folder.chmod(0o777)
    words = ["tsbatch", "--parsable", *sizes, "--cpus-per-task=1", "--mem=0", "--output=/shared/out/%j", script, "20"]
    env = ENV | ROOTS | {"HF_HOME": "/tmp/hf"}
    job = centre.cluster.run(words, user="alice", env=env, cwd=f"/shared/out/{script}").stdout.strip()
    centre.wait_for_state(job, "COMPLETED", seconds=START_S)
    assert "starts from the beginning" in centre.output(job)
    assert (folder / "weights.pt").is_file(), centre.output(job)
