"""The jobs of the campaign with virtual clusters: in each round another tenant submits most of them, more than its cells hold."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from tests.chaos.scene import NOTE_DEVICES, USERS, Job, Scene
from tests.chaos.tenants import GPUS_PER_NODE, GPUS_PER_PART, OUTSIDE, OWNED, Tenant, whole_nodes
from tests.chaos.workload import ROUND

ARRIVAL_S = 2.5  # seconds between jobs
BUSY_SHARE = 0.6  # of the jobs of a round are of the tenant whose turn it is
OUTSIDE_SHARE = 0.05
FIXED_SHARE = 0.06  # of jobs that cannot save, so that they run in the cells of their tenant only, and fit there
MEAN_S, SHORTEST_S, LONGEST_S = 25.0, 4.0, 60.0  # of training
SIZES = (1, 1, 2, 2, 4, 4, 8, 8, 16)


def tenant_jobs(
    scene: Scene, dice: random.Random, number: int, start: float, tenants: Mapping[str, Tenant] = OWNED
) -> Iterator[Job]:
    """The arrivals of a round. A tenant that owns sockets has no jobs of several nodes, which run on whole nodes only."""
    moment, place = 0.0, 0
    while (moment := moment + dice.expovariate(1 / ARRIVAL_S)) < ROUND:
        place += 1
        tenant, gpus = tenant_of_round(dice, number), dice.choice(SIZES)
        in_parts = tenant in tenants and tenants[tenant].in_parts
        if in_parts:
            gpus = min(gpus, GPUS_PER_NODE)
        most_fixed = GPUS_PER_PART if in_parts else gpus
        yield tenant_job(scene, dice, f"chaos-{number}-{place}", tenant, gpus, start + moment, most_fixed)


def tenant_of_round(dice: random.Random, number: int) -> str:
    """Draw the account of a job of this round."""
    names, chance = sorted(OWNED), dice.random()
    if chance < OUTSIDE_SHARE:
        return OUTSIDE
    return names[number % len(names)] if chance < OUTSIDE_SHARE + BUSY_SHARE else dice.choice(names)


def tenant_job(
    scene: Scene, dice: random.Random, name: str, tenant: str, gpus: int, at: float, most_fixed: int = max(SIZES)
) -> Job:
    """A training on as few nodes as hold its GPUs, or a job of at most `most_fixed` GPUs that cannot save."""
    user, nodes = dice.choice(USERS), whole_nodes(gpus)
    seconds = training_time(dice)
    own = [f"--account={tenant}", f"--nodes={nodes}"]
    if tenant != OUTSIDE and dice.random() < FIXED_SHARE and gpus <= most_fixed:
        command = ["sbatch", *scene.options(name, gpus), *own, "--wrap", f"{NOTE_DEVICES}\nsleep {seconds}"]
        return Job(name, user, command, at, trains=False, tenant=tenant, gpus=gpus)
    if tenant == OUTSIDE:  # it has no cells to start in, and its script may not have saved in any other job yet
        own.append("--opportunistic=restart")
    command = scene.trainer(name, gpus, seconds, *own)
    return Job(name, user, command, at, plain=gpus, tenant=tenant, gpus=gpus, nodes=nodes)


def training_time(dice: random.Random) -> float:
    """Draw the seconds that a job trains."""
    return round(min(max(dice.expovariate(1 / MEAN_S), SHORTEST_S), LONGEST_S), 1)
