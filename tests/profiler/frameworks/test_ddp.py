"""DistributedDataParallel over gloo, unmodified: the traffic of its all-reduce shows how large the model is, and with small
buckets how large its largest tensor.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.profiler.frameworks import jobs
from tiresias.simulator.models import MODELS

pytestmark = [pytest.mark.ci, pytest.mark.slow, pytest.mark.xdist_group("frameworks")]
# Each takes a minute of two processors; TIRESIAS_TEST_MODELS=all takes the ten of Table 6.
SHOWN = list(MODELS) if os.environ.get("TIRESIAS_TEST_MODELS") == "all" else ["alexnet", "resnet50"]
CONSOLIDATED = {"vgg19", "vgg16", "vgg11", "alexnet"}


@pytest.mark.parametrize(("workers", "model"), [(2, "resnet50"), pytest.param(3, "googlenet", marks=pytest.mark.long)])
def test_each_rank_sends_its_share_of_the_model(tmp_path: Path, workers: int, model: str) -> None:
    scale = 64
    found = jobs.run("torch", "ddp.py", tmp_path, model=model, scale=scale, workers=workers).profile
    whole = sum(jobs.sizes(model, scale))
    assert (found.shape.kind, found.shape.workers) == ("ring all-reduce", workers)
    assert found.shape.model == pytest.approx(whole, rel=0.01)
    sent = [sum(each.bytes for each in found.streams if each.sender == rank) for rank in range(workers)]
    assert sent == pytest.approx([2 * (workers - 1) / workers * whole] * workers, rel=0.01)
    assert abs(found.iterations - 25) <= 1
    assert found.skew is None, "one bucket holds them all"


@pytest.mark.long
@pytest.mark.parametrize("model", SHOWN)
def test_small_buckets_show_the_largest_tensor(tmp_path: Path, model: str) -> None:
    """bucket_cap_mb=1, scaled down as the model is."""
    scale, bucket = (64, 1 / 64) if model in CONSOLIDATED else (16, 1 / 16)
    job: dict[str, Any] = {"model": model, "scale": scale, "workers": 2, "BUCKET_CAP_MB": bucket}
    result = jobs.run("torch", "ddp.py", tmp_path, **job)
    found, true = result.profile, jobs.sizes(model, scale)
    assert (found.shape.kind, found.shape.workers) == ("ring all-reduce", 2)
    assert found.shape.model == pytest.approx(sum(true), rel=0.01)
    assert found.skew == pytest.approx(max(true) / sum(true), abs=0.02)
    assert found.verdict.decision == ("consolidate" if model in CONSOLIDATED else "spread")
    assert abs(found.iterations - 25) <= 1
    assert found.period
    assert found.period.seconds == pytest.approx(result.seconds, rel=0.4)
