"""Parameter servers of two frameworks, unmodified. torch RPC sends a tensor a message; TensorFlow's are messages of gRPC, mixed
with others on one connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.profiler.frameworks import jobs

pytestmark = [pytest.mark.ci, pytest.mark.slow, pytest.mark.xdist_group("frameworks")]


@pytest.mark.parametrize(
    ("framework", "program", "more"), [("torch", "rpc.py", {}), ("tensorflow", "tensorflow_ps.py", {"chiefs": 1})]
)
@pytest.mark.parametrize(
    ("model", "scale", "workers", "servers"),
    [
        pytest.param("vgg16", 64, 2, 3, marks=pytest.mark.long),
        pytest.param("resnet50", 16, 2, 2, marks=pytest.mark.long),
        pytest.param("alexnet", 32, 3, 1, marks=pytest.mark.long),
    ],
)
def test_servers_and_what_they_hold(
    tmp_path: Path,
    framework: str,
    program: str,
    more: dict[str, int],
    model: str,
    scale: int,
    workers: int,
    servers: int,
) -> None:
    job: dict[str, Any] = {"model": model, "scale": scale, "workers": workers, "servers": servers, **more}
    result = jobs.run(framework, program, tmp_path, **job)
    found, true = result.profile, jobs.sizes(model, scale)
    assert (found.shape.kind, found.shape.workers, len(found.shape.servers)) == ("parameter servers", workers, servers)
    parts = sorted(sum(true[server::servers]) for server in range(servers))
    assert sorted(each.bytes for each in found.shape.servers) == pytest.approx(parts, rel=0.01)
    assert found.skew == pytest.approx(max(true) / sum(true), abs=0.02)
    assert found.verdict.decision == ("spread" if model == "resnet50" else "consolidate")
    assert abs(found.iterations - 25) <= 1
    assert found.period
    assert found.period.seconds == pytest.approx(result.seconds, rel=0.4)
