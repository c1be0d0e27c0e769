"""Jobs of two users train through the service on a real Slurm: registered by munge, packed, migrated; the manager is killed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.services.parameter_service.numpy_training import alone
from tests.services.parameter_service.service_on_slurm import Service, until
from tiresias.sandbox.cluster import Cluster

STEPS, GPU_S = 200, 0.05
SCRIPT = """#!/bin/sh
export PYTHONPATH=$PYTHONPATH:/opt/tiresias OMP_NUM_THREADS=1
exec python3 -m tiresias.services.parameter_service.agent.register --manager /shared/service/published.json \\
  --servers {servers} --workers 2 --out /shared/{user}.json -- \\
  srun -n 2 -K1 python3 /opt/tiresias/tests/services/parameter_service/train_rank.py {seed} {steps} {gpu_s} /shared/{user}.npz
"""


def submit(cluster: Cluster, user: str, seed: int, servers: int = 2) -> str:
    for suffix in ("step", "json", "npz", "runs", "out"):
        (cluster.shared / f"{user}.{suffix}").unlink(missing_ok=True)
    shutil.rmtree(cluster.shared / f"{user}.checkpoints", ignore_errors=True)
    script = cluster.shared / f"{user}.sh"
    script.write_text(SCRIPT.format(user=user, servers=servers, seed=seed, steps=STEPS, gpu_s=GPU_S))
    command = ["sbatch", "--parsable", "-n", "2", "-o", f"/shared/{user}.out", f"/shared/{user}.sh"]
    return cluster.run(command, user=user).stdout.strip()


def output(cluster: Cluster, user: str) -> str:
    file = cluster.shared / f"{user}.out"
    return file.read_text() if file.exists() else "no output"


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_jobs_train_as_alone_while_the_manager_is_killed(
    cluster: Cluster, service_of: Callable[..., Service]
) -> None:
    service = service_of(4, period_s=2.0)
    service.lead()
    seeds = {"alice": 1, "bob": 2}
    jobs = {user: submit(cluster, user, seed) for user, seed in seeds.items()}
    for user in seeds:
        until((cluster.shared / f"{user}.step").exists, partial(output, cluster, user))
    largest = len(service.queued())
    service.kill()
    service.start()
    counts = set[int]()

    def ended() -> bool:
        counts.add(len(service.queued()))
        return not cluster.run(["squeue", "-h", "-j", ",".join(jobs.values())], check=False).stdout.strip()

    until(ended, lambda: [output(cluster, user) for user in seeds], 200)
    for user, seed in seeds.items():
        assert "has ended" in output(cluster, user), output(cluster, user)
        trained = np.load(cluster.shared / f"{user}.npz")
        for name, expected in alone(seed, STEPS).items():
            np.testing.assert_allclose(trained[name], expected, rtol=0, atol=1e-6 * float(abs(expected).max()))
    assert largest == 4, "the budget: two aggregators for each job while it is profiled"
    assert min(counts) < 4, f"the jobs were packed on fewer aggregators: {counts}"
    until(lambda: not service.queued(), lambda: f"aggregators without jobs: {service.queued()}")


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_job_resumes_after_the_loss_of_an_aggregators_node(
    cluster: Cluster, service_of: Callable[..., Service]
) -> None:
    """Its state folder is lost with it. Without an intervention the program fails, starts again, and begins with its checkpoint."""
    service = service_of(2, period_s=2.0)
    service.lead()
    job = submit(cluster, "alice", 4)
    saved = cluster.shared / "alice.checkpoints/step-30"
    until(saved.exists, partial(output, cluster, "alice"), 120)
    (line, *_) = cluster.run(["pgrep", "-fa", "^[^ ]*python3 .*parameter_service.aggregator "]).stdout.splitlines()
    pid, *words = line.split()
    cluster.run(["sh", "-c", f"kill -KILL {pid}; rm -rf {Path(words[-1]).parent}"])

    def ended() -> bool:
        return not cluster.run(["squeue", "-h", "-j", job], check=False).stdout.strip()

    until(ended, partial(output, cluster, "alice"), 200)
    log = output(cluster, "alice")
    assert "is lost: resume from the checkpoint" in log, log
    assert "it starts again" in log
    (resumed,) = (cluster.shared / "alice.runs").read_text().splitlines()
    assert 30 <= int(resumed.split()[0]) <= int(resumed.split()[1])
    trained = np.load(cluster.shared / "alice.npz")
    for name, expected in alone(4, STEPS).items():
        np.testing.assert_allclose(trained[name], expected, rtol=0, atol=1e-6 * float(abs(expected).max()))
    until(lambda: not service.queued(), lambda: f"aggregators without jobs: {service.queued()}")


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_aggregators_of_a_killed_job_end(cluster: Cluster, service_of: Callable[..., Service]) -> None:
    """It sends no EndJob; its silence ends it."""
    service = service_of(2, period_s=1.0, silence_s=3.0)
    service.lead()
    job = submit(cluster, "alice", 3)
    until((cluster.shared / "alice.step").exists, partial(output, cluster, "alice"))
    assert len(service.queued()) == 2
    cluster.run(["scancel", "--full", "--signal=KILL", job])
    until(lambda: not service.queued(), service.queued)
