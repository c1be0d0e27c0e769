"""The examples of docs/examples with the real frameworks: stopped at random moments and resumed, they end with the same bytes."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make test installs it)")

PACED = Path(__file__).with_name("paced.py")
TWO_RANKS = Path(__file__).with_name("two_lightning_ranks.py")
EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
pytestmark = [pytest.mark.slow, pytest.mark.apart, pytest.mark.timeout(1500)]


def weights(folder: Path) -> dict[str, bytes]:
    found = torch.load(folder / "weights.pt", weights_only=True)
    return {name: tensor.numpy().tobytes() for name, tensor in found.items()}


@pytest.mark.parametrize(
    ("name", "framework", "ranks", "steps", "stops"),
    [
        ("plain", "torch", 1, 800, 4),
        ("ddp", "torch", 2, 500, 2),
        ("ddp", "torch", 4, 500, 2),
        ("fsdp", "torch", 2, 500, 2),
        ("with_lightning", "lightning", 1, 600, 3),
        ("with_lightning", "lightning", 2, 500, 2),
        ("with_transformers", "transformers", 1, 500, 2),
        ("with_transformers", "transformers", 2, 400, 2),
    ],
)
def test_a_stopped_run_ends_with_the_same_bytes(
    pair: Any, name: str, framework: str, ranks: int, steps: int, stops: int
) -> None:
    """Each stopped run makes at most 120 steps, by its pace."""
    pytest.importorskip(framework, reason=f"{framework} is not installed (make test installs it)")
    command = [str(EXAMPLES / f"{name}.py"), str(steps)]
    if name == "with_lightning" and ranks == 2:
        command = [str(TWO_RANKS), *command]
    whole, stopped = pair([sys.executable, *command], ranks, [sys.executable, str(PACED), "0.005", *command])
    whole.whole()
    stopped.stopped(stops, seed=steps)
    assert weights(stopped.folder) == weights(whole.folder), stopped.log()
    resumed = [int(step) for step in re.findall(r"resumes from step (\d+)", stopped.log())]
    assert resumed == sorted(set(resumed)), "each run goes on where the one before it stopped"
    assert len(resumed) == stops


def test_fsdp_goes_on_with_other_numbers_of_ranks(pair: Any) -> None:
    job, _ = pair([sys.executable, str(EXAMPLES / "fsdp.py"), "100000"])
    for ranks in (3, 2, 4):
        job.start(ranks)
        job.until_ready()
        job.tell("signal")
        assert job.end() == 99
    assert job.log().count("resumes from step") == 2
    assert "2 ranks saved, 4 resume" in job.log()
