"""The manager itself reverts an assignment on real aggregators: the thesis' row of 2 AlexNet with 4 servers each, 0.375 saved.

Two jobs of 4 servers are packed on 4 aggregators. Then other work takes the core of one of them for a part of the time: it is
stopped and continued. Iterations really take longer, the manager measures 100 of a job, and puts the job back: on an aggregator
more, of its own. Both jobs end with the parameters of a training in one process.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.services.parameter_service.numpy_training import alone
from tests.services.parameter_service.service_on_slurm import SERVICE, Service, until
from tests.services.parameter_service.test_training_on_slurm import output
from tiresias.sandbox.cluster import Cluster

SERVERS = 4
LAYERS = tuple(f"layer{at}" for at in range(SERVERS))
STEPS = {"alice": 330, "bob": 280}
GPU_S = 0.3  # equal ones: each job runs once in a cycle
STOPPED_S, RUNS_S = 0.3, 0.15
FOLDER = "/opt/tiresias/tests/services/parameter_service/manager"
SCRIPT = """#!/bin/sh
export PYTHONPATH=$PYTHONPATH:/opt/tiresias OMP_NUM_THREADS=1
exec python3 -m tiresias.services.parameter_service.agent.register --manager /shared/service/published.json --job {user} \\
  --servers {servers} --workers 2 --out /shared/{user}.json -- \\
  srun -n 2 -K1 python3 {folder}/layers_rank.py {seed} {steps} {gpu_s} /shared/{user}.npz
"""


def submit(cluster: Cluster, user: str, seed: int) -> str:
    for suffix in ("json", "npz", "out"):
        (cluster.shared / f"{user}.{suffix}").unlink(missing_ok=True)
    script = cluster.shared / f"{user}.sh"
    numbers = {"servers": SERVERS, "seed": seed, "steps": STEPS[user], "gpu_s": GPU_S}
    script.write_text(SCRIPT.format(user=user, folder=FOLDER, **numbers))
    command = ["sbatch", "--parsable", "-n", "2", "-o", f"/shared/{user}.out", f"/shared/{user}.sh"]
    return cluster.run(command, user=user).stdout.strip()


@contextmanager
def busy_core(cluster: Cluster, pid: str) -> Iterator[None]:
    """Stop a process for STOPPED_S of each STOPPED_S + RUNS_S seconds."""
    ended = threading.Event()

    def stop() -> None:
        while not ended.wait(RUNS_S):
            cluster.run(["kill", "-STOP", pid])
            ended.wait(STOPPED_S)
            cluster.run(["kill", "-CONT", pid])

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def pid_of_first(cluster: Cluster) -> str:
    """The process of the first aggregator that has tensors."""
    lines = cluster.run(["pgrep", "-fa", "^[^ ]*python3 .*parameter_service.aggregator "]).stdout.splitlines()
    return min(lines, key=lambda line: int(line.split("/")[-2])).split()[0]


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_measured_loss_puts_a_job_back(cluster: Cluster, service_of: Callable[..., Service]) -> None:
    service = service_of(2 * SERVERS)
    service.lead()

    def jobs() -> dict[str, Any]:
        return {each["name"]: each for each in service.seen(SERVICE)["jobs"]}

    def used() -> set[str]:
        return {name for each in jobs().values() for name in each["aggregators"]}

    def is_assigned(user: str) -> bool:
        return bool(jobs().get(user, {}).get("state") == "assigned")

    submitted = [submit(cluster, "alice", 1)]
    until(lambda: is_assigned("alice"), partial(output, cluster, "alice"), 120)
    submitted.append(submit(cluster, "bob", 2))
    until(lambda: is_assigned("bob"), partial(output, cluster, "bob"), 120)
    assert len(used()) == SERVERS, "packed: half of the servers that both declared"
    with busy_core(cluster, pid_of_first(cluster)):
        until(lambda: sum(each["reverts"] for each in jobs().values()) > 0, lambda: json.dumps(jobs()), 150)
        found, now_used = jobs(), used()
    (reverted,) = [user for user, each in found.items() if each["reverts"]]
    disturbed_s, loss = found[reverted]["measured_s"], found[reverted]["loss"]
    print(f"{reverted}: {found[reverted]['iteration_s']:.3f} s alone, {disturbed_s:.3f} s measured, loss {loss:.0%}")
    assert loss > 0.1
    saved = 1 - len(now_used) / (2 * SERVERS)
    assert saved == 0.375, f"one aggregator more than {SERVERS}: {now_used}"
    until(lambda: jobs()[reverted]["measured_s"] < disturbed_s, lambda: json.dumps(jobs()), 100)
    print(f"{reverted}: {jobs()[reverted]['measured_s']:.3f} s after the revert, {1 - len(used()) / 8:.3f} saved")
    queue = ["squeue", "-h", "-j", ",".join(submitted)]
    until(lambda: not cluster.run(queue, check=False).stdout.strip(), lambda: output(cluster, "bob"), 150)
    for seed, user in enumerate(STEPS, 1):
        trained = np.load(cluster.shared / f"{user}.npz")
        for name, expected in alone(seed, STEPS[user], LAYERS).items():
            np.testing.assert_allclose(trained[name], expected, rtol=0, atol=1e-6 * float(abs(expected).max()))
