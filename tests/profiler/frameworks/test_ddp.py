"""DistributedDataParallel over gloo, unmodified: what its all-reduce sends says how large the model is."""

from __future__ import annotations

import jobs
import pytest

MIB = 1 << 20


@pytest.mark.parametrize(("workers", "model"), [(2, "resnet50"), (3, "googlenet"), (4, "vgg16")])
def test_each_rank_sends_its_share_of_the_model(tmp_path, workers, model):
    scale = 64
    found = jobs.run("torch", "ddp.py", tmp_path, model=model, scale=scale, workers=workers).profile
    whole = sum(jobs.sizes(model, scale))
    assert (found.shape.kind, found.shape.workers) == ("ring all-reduce", workers)
    assert found.shape.model == pytest.approx(whole, rel=0.01)
    sent = [sum(each.bytes for each in found.streams if each.sender == rank) for rank in range(workers)]
    assert sent == pytest.approx([2 * (workers - 1) / workers * whole] * workers, rel=0.01)
    assert abs(found.iterations - 25) <= 1
    assert found.period
