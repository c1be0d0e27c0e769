"""The examples of docs/examples with the real frameworks: stopped at random moments and resumed, they end with the same bytes."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make test installs it)")

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


def weights(folder: Path) -> dict[str, bytes]:
    found = torch.load(folder / "weights.pt", weights_only=True)
    return {name: tensor.numpy().tobytes() for name, tensor in found.items()}


@pytest.mark.parametrize(
    ("name", "framework", "ranks", "steps", "stops"),
    [
        ("plain", "torch", 1, 2000, 4),
        ("ddp", "torch", 2, 600, 3),
        ("ddp", "torch", 4, 400, 3),
        ("fsdp", "torch", 2, 300, 3),
        ("with_lightning", "lightning", 1, 700, 3),
        ("with_transformers", "transformers", 1, 200, 3),
    ],
)
def test_a_stopped_run_ends_with_the_same_bytes(
    pair: Any, name: str, framework: str, ranks: int, steps: int, stops: int
) -> None:
    pytest.importorskip(framework, reason=f"{framework} is not installed (make test installs it)")
    whole, stopped = pair(sys.executable, str(EXAMPLES / f"{name}.py"), str(steps), ranks=ranks)
    seconds = whole.uninterrupted()
    assert stopped.stopped(stops, seconds, seed=steps) >= 2, stopped.log()
    assert weights(stopped.folder) == weights(whole.folder), stopped.log()
    log = stopped.log()
    saved = [int(step) for step in re.findall(r"resumes from step (\d+)", log)]
    assert saved == sorted(set(saved)), "no step is lost and none is done twice"
    assert saved, log


def test_fsdp_goes_on_with_other_numbers_of_ranks(pair: Any) -> None:
    _, job = pair(sys.executable, str(EXAMPLES / "fsdp.py"), "100000")
    for ranks in (3, 2, 4):
        job.start(ranks)
        job.until_ready()
        job.tell("signal")
        assert job.end() == 99
    assert job.log().count("resumes from step") == 2
    assert "2 ranks saved, 4 resume" in job.log()
