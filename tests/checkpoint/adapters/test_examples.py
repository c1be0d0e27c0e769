"""The examples of docs/examples with the real frameworks: stopped at random moments and resumed, they end with the same bytes."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoint.adapters.shared_gpu import variables
from tests.lazily import imported
from tiresias.protocol import control

torch = imported("torch")

PACED = Path(__file__).with_name("paced.py")
TWO_RANKS = Path(__file__).with_name("two_lightning_ranks.py")
EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
REPORTING = ("plain", "with_lightning", "with_transformers")
pytestmark = [pytest.mark.ci, pytest.mark.slow, pytest.mark.timeout(1500)]
# What each imports, most of it at its first step.
MODULES = {
    "torch": ("torch._dynamo", "torch.distributed.checkpoint.state_dict", "torch.distributed.fsdp", "torch.utils.data"),
    "lightning": ("torch._dynamo", "lightning.pytorch", "lightning.pytorch.strategies"),
    "transformers": ("torch._dynamo", "transformers.trainer", "transformers.models.gpt2.modeling_gpt2"),
}


def example(framework: str, name: str, ranks: int, steps: int, stops: int, long: bool = False) -> Any:
    """Those of one framework follow one another in one worker, where one nursery has imported it. long: a shorter
    test, or those of the adapter, are in `make test` or `make test-ci`."""
    marks = [pytest.mark.xdist_group(f"examples-{framework}"), *([pytest.mark.long] if long else [])]
    return pytest.param(framework, name, ranks, steps, stops, marks=marks)


def require(framework: str) -> None:
    """Skip the test, which has several ranks, where the framework is not installed, or where it cannot run them on one GPU."""
    pytest.importorskip(framework, reason=f"{framework} is not installed (make test installs it)")
    if framework == "lightning" and variables("0"):
        pytest.skip("this machine has one GPU, and Lightning gives each rank one of its own")


def weights(folder: Path) -> dict[str, bytes]:
    found = torch.load(folder / "weights.pt", map_location="cpu", weights_only=True)
    return {name: tensor.numpy().tobytes() for name, tensor in found.items()}


@pytest.mark.parametrize(
    ("framework", "name", "ranks", "steps", "stops"),
    [
        example("torch", "plain", 1, 300, 1, long=True),
        example("torch", "plain", 1, 560, 4, long=True),
        example("torch", "ddp", 2, 300, 2),
        example("torch", "ddp", 4, 300, 2, long=True),
        example("torch", "fsdp", 2, 300, 2, long=True),
        example("lightning", "with_lightning", 1, 300, 1, long=True),
        example("lightning", "with_lightning", 1, 420, 3, long=True),
        example("lightning", "with_lightning", 2, 300, 2, long=True),
        example("transformers", "with_transformers", 1, 300, 1),
        example("transformers", "with_transformers", 1, 300, 2, long=True),
        example("transformers", "with_transformers", 2, 300, 2, long=True),
    ],
)
def test_a_stopped_run_ends_with_the_same_bytes(
    pair: Any, nursery_of: Any, framework: str, name: str, ranks: int, steps: int, stops: int
) -> None:
    """Each stopped run makes at most 120 steps, by its pace."""
    pytest.importorskip(framework, reason=f"{framework} is not installed (make test installs it)")
    command = [str(EXAMPLES / f"{name}.py"), str(steps)]
    if name == "with_lightning" and ranks == 2:
        command = [str(TWO_RANKS), *command]
    paced = [sys.executable, str(PACED), "0.005", *command]
    whole, stopped = pair([sys.executable, *command], ranks, paced, nursery_of(*MODULES[framework]))
    whole.whole()
    if name in REPORTING:
        report = control.read(whole.control / control.PROGRESS, os.getuid())
        assert (report["restart"], report["total"]) == (0, steps)
        assert 0 < report["step"] <= steps
    stopped.stopped(stops, seed=steps)
    assert weights(stopped.folder) == weights(whole.folder), stopped.log()
    resumed = [int(step) for step in re.findall(r"resumes from step (\d+)", stopped.log())]
    assert resumed == sorted(set(resumed)), "each run goes on where the one before it stopped"
    assert len(resumed) == stops


@pytest.mark.xdist_group("examples-torch")
def test_fsdp_goes_on_with_other_numbers_of_ranks(pair: Any, nursery_of: Any) -> None:
    _, job = pair([sys.executable, str(EXAMPLES / "fsdp.py"), "100000"], nursery=nursery_of(*MODULES["torch"]))
    for ranks in (3, 2, 4):
        job.start(ranks)
        job.until_ready()
        job.request("signal")
        assert job.end() == 99
    assert job.log().count("resumes from step") == 2
    assert "2 ranks saved, 4 resume" in job.log()


def losses(folder: Path) -> dict[int, float]:
    """Return the loss of each step; a step that is there twice was made twice."""
    lines = [line.split() for line in (folder / "losses").read_text().splitlines()]
    found = {int(step): float(loss) for step, loss, _ in lines}
    assert len(found) == len(lines), "no step is made twice"
    return found


@pytest.mark.xdist_group("examples-torch")
def test_the_loss_curve_is_the_same_on_numbers_of_ranks_that_change(pair: Any, nursery_of: Any) -> None:
    steps, ranks = 300, (3, 2, 4)
    command = [str(EXAMPLES / "elastic.py"), str(steps)]
    paced = [sys.executable, str(PACED), "0.01", *command]
    whole, job = pair([sys.executable, *command], 2, paced, nursery_of(*MODULES["torch"]))
    whole.whole()
    for count in ranks:
        job.start(count)
        job.until_ready()
        job.request("signal")
        assert job.end() == 99, job.log()
    job.start(2)
    assert job.end() == 0, job.log()
    expected, found = losses(whole.folder), losses(job.folder)
    assert sorted(found) == list(range(1, steps + 1))
    assert max(abs(found[step] - expected[step]) for step in found) < 1e-12


def resized(job: Any, ranks: tuple[int, ...]) -> None:
    """Run a job on these numbers of ranks, each until it has trained for a moment, and on two ranks to its end."""
    for count in ranks:
        job.start(count)
        job.until_ready()
        job.request("signal")
        assert job.end() == 99, job.log()
    job.start(2)
    assert job.end() == 0, job.log()


@pytest.mark.parametrize(
    ("framework", "name"),
    [
        pytest.param("torch", "elastic", marks=[pytest.mark.xdist_group("examples-torch"), pytest.mark.long]),
        pytest.param("torch", "elastic_fsdp", marks=pytest.mark.xdist_group("examples-torch")),
        pytest.param("lightning", "elastic_lightning", marks=pytest.mark.xdist_group("examples-lightning")),
        pytest.param("transformers", "elastic_transformers", marks=pytest.mark.xdist_group("examples-transformers")),
    ],
)
def test_the_weights_are_the_same_on_numbers_of_ranks_that_change(
    pair: Any, nursery_of: Any, framework: str, name: str
) -> None:
    require(framework)
    command = [str(EXAMPLES / f"{name}.py"), "120"]
    paced = [sys.executable, str(PACED), "0.02", *command]
    whole, job = pair([sys.executable, *command], 2, paced, nursery_of(*MODULES[framework]))
    whole.whole()
    resized(job, (1, 4, 3))
    steps = [int(step) for step in re.findall(r"resumes from step (\d+)", (job.folder / "log").read_text())]
    assert steps == sorted(set(steps)), "no step is made twice"
    assert len(steps) == 3
    expected, found = (
        torch.load(one.folder / "weights.pt", map_location="cpu", weights_only=True) for one in (whole, job)
    )
    difference = max(float((expected[key] - found[key]).abs().max()) for key in expected)
    assert difference < 1e-7, "in double precision; sums are rounded in another order"
