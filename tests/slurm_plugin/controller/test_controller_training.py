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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make test installs it)")
pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(1800)]
Centre = Any  # conftest.py

PREEMPTIONS = int(os.environ.get("TIRESIAS_TEST_PREEMPTIONS", "3"))
STEPS = 125 * (PREEMPTIONS + 1)  # 2.5 seconds of paced training for each run
LONGEST = 1.5  # seconds that a run trains before a job comes that needs its nodes
START = 600.0  # seconds: four ranks that import PyTorch on two cores, perhaps beside other tests, take their time
EXAMPLE = "/opt/tiresias/docs/examples/ddp.py"
PACED = "python3 /opt/tiresias/tests/checkpoint/adapters/paced.py 0.02"
EXAMPLES = Path(__file__).parents[3] / "docs/examples"
ROOTS = {
    "TIRESIAS_CONTROL_ROOT": "/shared/tiresias/control", "TIRESIAS_CHECKPOINT_ROOT": "/shared/tiresias/checkpoints"
}  # fmt: skip
ENV = {
    "PYTHONPATH": "/shared/packages:/opt/tiresias/src",
    "MASTER_ADDR": "127.0.0.1",
    "OMP_NUM_THREADS": "1",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}


@pytest.fixture
def centre(centre_of_this_python: Callable[[], Centre]) -> Iterator[Centre]:
    centre = centre_of_this_python()
    # A whale is past the threshold after its first second; a save may wait for ranks that get no processor.
    centre.restart(policy={"thresholds": [8.0], "min_run": 0.1}, preemption={"deadline": 120.0, "start_timeout": 20.0})
    yield centre
    centre.clean()
    centre.stop()


def submit(centre: Centre, name: str, command: str, by: str) -> str:
    """Four ranks on four nodes, all GPUs of the cluster; the job's id. It works in /shared/out/NAME."""
    folder = centre.cluster.shared / "out" / name
    folder.mkdir()
    folder.chmod(0o777)
    port = 20000 + random.randrange(10000)
    command = f"srun {command} {EXAMPLE} {STEPS}"
    return centre.submit(  # type: ignore[no-any-return]
        "--nodes=4", "--ntasks-per-node=1", "--gpus-per-node=4", f"--chdir=/shared/out/{name}", gpus=0, by=by, command=command,
        env=ENV | {"MASTER_PORT": str(port)},
    )  # fmt: skip


def preempt(centre: Centre, whale: str, after: float) -> None:
    """A job that needs the whale's nodes comes so many seconds after the whale's first step, and is gone soon."""

    def known() -> bool:
        """It can be preempted, or will not come to that."""
        return centre.published(whale).get("preemptable", False) or centre.state(whale) in (
            "COMPLETED",
            "FAILED",
            "CANCELLED",
        )

    centre.until(known, "the whale does not train", whale, seconds=START)
    assert centre.published(whale).get("preemptable"), centre.output(whale)
    time.sleep(after)
    small = centre.submit(command="sleep 0.2", user="bob")
    centre.reaches(small, "COMPLETED", seconds=START)


def weights(folder: Path) -> dict[str, bytes]:
    found = torch.load(folder / "weights.pt", weights_only=True)
    return {name: tensor.numpy().tobytes() for name, tensor in found.items()}


@pytest.mark.long
def test_preempted_at_random_moments_the_weights_are_the_same_bytes(centre: Centre) -> None:
    whole = submit(centre, "whole", "python3", by="sbatch")
    centre.reaches(whole, "COMPLETED", seconds=START)
    whale = submit(centre, "whale", PACED, by="tsbatch")
    moments = random.Random(PREEMPTIONS)
    for _ in range(PREEMPTIONS):
        preempt(centre, whale, moments.uniform(0, LONGEST))
    assert centre.reaches(whale, "COMPLETED", seconds=START)["Restarts"] == str(PREEMPTIONS), centre.output(whale)
    assert weights(centre.cluster.shared / "out/whale") == weights(centre.cluster.shared / "out/whole")
    saved, resumed = (
        [int(step) for step in re.findall(rf"{word} step (\d+)", centre.output(whale))]
        for word in ("saved", "resumes from")
    )
    assert saved == resumed == sorted(set(saved)), "no step is lost, none is done twice"
    assert len(saved) == PREEMPTIONS


LONG = ("plain.sh", "fsdp.sh", "with_lightning.sh", "with_transformers.sh")  # test_examples.py runs their programs


@pytest.mark.parametrize("script", ["ddp.sh", *(pytest.param(name, marks=pytest.mark.long) for name in LONG)])
def test_the_scripts_of_the_examples_run_as_they_stand(centre: Centre, script: str) -> None:
    """But for the sizes: two nodes with a rank each, where the script asks for several."""
    sizes = ["--nodes=2", "--ntasks-per-node=1"] if "nodes" in (EXAMPLES / script).read_text() else []
    folder = centre.cluster.shared / "out" / script
    shutil.copytree(EXAMPLES, folder)
    folder.chmod(0o777)
    words = ["tsbatch", "--parsable", *sizes, "--cpus-per-task=1", "--mem=0", "--output=/shared/out/%j", script, "20"]
    env = ENV | ROOTS | {"HF_HOME": "/tmp/hf"}
    job = centre.cluster.run(words, user="alice", env=env, cwd=f"/shared/out/{script}").stdout.strip()
    centre.reaches(job, "COMPLETED", seconds=START)
    assert "starts from the beginning" in centre.output(job)
    assert (folder / "weights.pt").is_file(), centre.output(job)
