"""docs/examples/with_submitit.py, preempted by the running controller: submitit's own checkpoint() saves."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.slurm_plugin.controller.centre import Centre

submitit = pytest.importorskip("submitit", reason="submitit is not installed (make test installs it)")
pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow, pytest.mark.timeout(600)]

STEPS = 150
START_S = 120.0
EXAMPLE = "/opt/tiresias/docs/examples/with_submitit.py"
ENV = {
    "PYTHONPATH": "/opt/tiresias/docs/examples:/opt/tiresias/src:/shared/packages",
    "TIRESIAS_CONTROL_ROOT": "/shared/tiresias/control",
    "TIRESIAS_CHECKPOINT_ROOT": "/shared/tiresias/checkpoints",
}


@pytest.fixture
def centre(training_centre: Centre) -> Centre:
    return training_centre


def submit(centre: Centre, name: str, seconds: float) -> tuple[str, Path]:
    folder = centre.cluster.shared / "out" / name
    folder.mkdir()
    folder.chmod(0o777)
    words = ["python3", EXAMPLE, str(STEPS), str(seconds)]
    return centre.cluster.run(words, user="alice", env=ENV, cwd=f"/shared/out/{name}").stdout.split()[-1], folder


def lines(folder: Path) -> int:
    path = folder / "losses"
    return len(path.read_text().splitlines()) if path.exists() else 0


def log(folder: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in sorted((folder / "logs").glob("*_log.*")))


def curve(folder: Path) -> dict[int, str]:
    found: dict[int, str] = {}
    for line in (folder / "losses").read_text().splitlines():
        step, loss = line.split()
        assert found.setdefault(int(step), loss) == loss, f"step {step} has two losses"
    return found


@pytest.mark.parametrize("preemptions", [1, pytest.param(3, marks=pytest.mark.long)])
def test_checkpoint_of_submitit_is_called_and_nothing_is_lost(centre: Centre, preemptions: int) -> None:
    whole, plain = submit(centre, f"submitit-whole-{preemptions}", 0.0)
    centre.wait_for_state(whole, "COMPLETED", seconds=START_S)
    job, folder = submit(centre, f"submitit-{preemptions}", 0.05)
    for _ in range(preemptions):
        before = lines(folder)
        centre.wait_until(lambda before=before: lines(folder) > before, log(folder), job, seconds=START_S)
        centre.wait_until(
            lambda: centre.published(job)["preemptable"], log(folder), job
        )  # its processes must be registered first
        time.sleep(0.3)
        small = centre.submit(command="sleep 0.2", user="bob")
        centre.wait_for_state(small, "COMPLETED", seconds=START_S)
    assert centre.wait_for_state(job, "COMPLETED", seconds=START_S)["Restarts"] == str(preemptions), log(folder)
    assert curve(folder) == curve(plain)
    assert sorted(curve(folder)) == list(range(1, STEPS + 1))
    text = log(folder)
    assert text.count("submitit has saved (3 remaining timeouts)") == preemptions, (
        "a preemption must not count as a time-out"
    )
    assert text.count("saved by itself: 1 files") == preemptions, text
    assert "Requeued job" not in text, "two requeues would compete"
