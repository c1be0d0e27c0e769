"""On a real Slurm: a job that registers for a run of another size is a new one, and nothing of its killed run remains."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from tests.services.parameter_service.numpy_training import alone
from tests.services.parameter_service.service_on_slurm import Service, until
from tests.services.parameter_service.test_training_on_slurm import GPU_S, STEPS, output
from tiresias.sandbox.cluster import Cluster

SCRIPT = f"""#!/bin/sh
set -e
export PYTHONPATH=$PYTHONPATH:/opt/tiresias OMP_NUM_THREADS=1 TIRESIAS_PARAMETER_SERVICE=/shared/alice.json
python3 -m tiresias.services.parameter_service.agent.register --manager /shared/service/published.json \\
  --job resized --servers 2 --workers $1 --out /shared/alice.json
srun -n $1 python3 /opt/tiresias/tests/services/parameter_service/train_rank.py $2 {STEPS} {GPU_S} /shared/alice.npz
python3 -m tiresias.services.parameter_service.agent.register --end --out /shared/alice.json
"""


def run(cluster: Cluster, workers: int, seed: int) -> str:
    for suffix in ("step", "npz"):
        (cluster.shared / f"alice.{suffix}").unlink(missing_ok=True)
    cluster.run(
        ["rm", "-rf", "/shared/alice.checkpoints"]
    )  # each run begins anew: what is tested is the service's side
    (cluster.shared / "resized.sh").write_text(SCRIPT)
    command = ["sbatch", "--parsable", "-n", str(workers), "-o", "/shared/alice.out", "/shared/resized.sh"]
    job = cluster.run([*command, str(workers), str(seed)], user="alice").stdout.strip()
    until((cluster.shared / "alice.step").exists, partial(output, cluster, "alice"))
    return job


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.long
def test_a_run_with_other_workers_follows_a_killed_one(cluster: Cluster, service_of: Callable[..., Service]) -> None:
    (cluster.shared / "alice.json").unlink(missing_ok=True)
    service = service_of(2)  # the second run gets what the first one releases
    service.lead()
    killed = run(cluster, 1, 7)
    assert [job["workers"] for job in service.seen("alice")["jobs"]] == [1]
    cluster.run(["scancel", "--full", "--signal=KILL", killed])
    until(lambda: killed not in cluster.run(["squeue", "-h", "-o", "%A"]).stdout.split(), lambda: "it does not end")
    second = run(cluster, 2, 8)

    def shown() -> list[tuple[str, int, float | None]]:
        return [(job["name"], job["workers"], job["measured_s"]) for job in service.seen("alice")["jobs"]]

    until(lambda: shown() == [("resized", 2, None)], shown)
    queue = ["squeue", "-h", "-j", second]
    until(lambda: not cluster.run(queue, check=False).stdout.strip(), lambda: output(cluster, "alice"), 150)
    assert "has ended" in output(cluster, "alice"), output(cluster, "alice")
    trained = np.load(cluster.shared / "alice.npz")
    for name, expected in alone(8, STEPS).items():
        np.testing.assert_allclose(trained[name], expected, rtol=0, atol=1e-6 * float(abs(expected).max()))
