"""How long the admission model and the reading of associations take on a large site. One core; prints JSON.

    python bench/admission.py [--jobs 10000] [--users 20] [--associations 10000] [--repeat 20]

admission   all jobs of a snapshot, half of them running, against the limits of ten QOS, of so many users in each and of forty
            accounts (`limits` in all), ten reservations and twenty throttled arrays
parse       scontrol's output for so many associations: none of the users with a limit, and each of them with one
Milliseconds of this process on a processor.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

from tiresias.slurm_plugin.admission.admissible import _limits_of, admission
from tiresias.slurm_plugin.backends import assoc_mgr
from tiresias.slurm_plugin.backends.interface import NodeShare, SlurmJob
from tiresias.slurm_plugin.backends.slurm_rules import Association, Partition, Qos, Reservation, SlurmRules

NOW = 1_800_000_000
WAITING = SlurmJob(
    id="1", raw_id=1, array_id=0, het_id=0, name="train-resnet50", user="alice", uid=1001, account="science",
    partition="gpu", state="PENDING", completing=False, reason="JobHeldAdmin", priority=0, restarts=0, submit_time=NOW,
    begin_time=NOW, start_time=0, end_time=0, time_limit=86400, gpus=1, gpu_type="", gpus_per_node=0, min_nodes=1,
    max_nodes=1, cpus=1, memory_per_node=0, memory_per_cpu=500, features="", required_nodes=(), excluded_nodes=(),
    shares=(), requeue=True, batch=True, reservation="", dependency="", exit_code=-1,
)  # fmt: skip
USED = "cpu=N(0),mem=N(0),energy=N(0),node=N(0),billing=N(0),fs/disk=N(0),vmem=N(0),pages=N(0),gres/gpu=N(0)"


def queue(count: int, users: int) -> list[SlurmJob]:
    chance = random.Random(1)
    return [_job(number, users, chance) for number in range(count)]


def _job(number: int, users: int, chance: random.Random) -> SlurmJob:
    gpus = chance.choice([1, 2, 4, 8])
    job = replace(
        WAITING, id=str(number), raw_id=number, user=f"user{number % users}", account=f"account{number % 40}",
        qos=f"qos{number % 10}", gpus=gpus, cpus=4 * gpus, time_limit=chance.choice([600, 3600, 86400, 0]),
        array_id=number % 20 if number % 5 == 0 else 0, array_limit=7 if number % 5 == 0 else 0,
    )  # fmt: skip
    if number % 2:
        return job
    share = NodeShare(f"node{number % 2000}", gpus, 4 * gpus, 1000)
    return replace(job, state="RUNNING", start_time=NOW - 60, shares=(share,))


def site() -> SlurmRules:
    qos = {f"qos{at}": _qos(at) for at in range(10)}
    limit = {"gres/gpu": 300.0, "cpu": 900.0}
    names = [f"account{at}" for at in range(40)]
    accounts = {(name, "", ""): Association(account=name, parent="root", grp_tres=limit) for name in names}
    accounts["root", "", ""] = Association(account="root")
    nodes = tuple(f"node{number}" for number in range(2000))
    windows = tuple(Reservation(f"r{at}", NOW + 600 * at, NOW + 1e6, nodes[at * 20 : at * 20 + 20]) for at in range(10))
    return SlurmRules(
        time=NOW,
        enforce=frozenset({"associations", "limits"}),
        partitions={"gpu": Partition("gpu", nodes=nodes)},
        reservations=windows,
        qos=qos,
        associations=accounts,
    )


def _qos(at: int) -> Qos:
    return Qos(
        name=f"qos{at}",
        grp_tres={"gres/gpu": 2000.0},
        max_jobs_user=20.0,
        max_tres_user={"gres/gpu": 40.0},
        grp_tres_run_mins={"cpu": 1e9},
    )


def associations(count: int, limit: str) -> str:
    line = (
        "ClusterName=c Account=account{at} UserName=user{at}(2001) Partition= Priority=0 ID=4 "
        "SharesRaw/Norm/Level/Factor=1/0.33/3/1.00 UsageRaw/Norm/Efctv=0.00/0.00/0.00 ParentAccount= "
        "Lineage=/a/0-user/ DefAssoc=Yes GrpJobs=N(0) GrpJobsAccrue=N(0) "
        f"GrpSubmitJobs=N(0) GrpWall=N(0.00) GrpTRES={USED} GrpTRESMins={USED} GrpTRESRunMins={USED} MaxJobs={limit} "
        "MaxJobsAccrue= MaxSubmitJobs= MaxWallPJ= MaxTRESPJ= MaxTRESPN= MaxTRESMinsPJ= MinPrioThresh= Comment=(null)"
    )
    return "\n".join(line.replace("{at}", str(at)) for at in range(count))


def milliseconds(work: Callable[[], object], repeat: int) -> dict[str, float]:
    taken = []
    for _ in range(repeat):
        begin = time.process_time()
        work()
        taken.append(1000 * (time.process_time() - begin))
    taken.sort()
    return {"median": round(statistics.median(taken), 1), "p99": round(taken[math.ceil(0.99 * len(taken)) - 1], 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("jobs", 10_000), ("users", 20), ("associations", 10_000), ("repeat", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    jobs, rules = queue(options.jobs, options.users), site()
    waiting = [job for job in jobs if job.state == "PENDING"]
    found = admission(rules, jobs, waiting, NOW)
    plain, limited = associations(options.associations, ""), associations(options.associations, "7(0)")
    report = {
        "python": platform.python_version(),
        "jobs": options.jobs,
        "waiting": len(waiting),
        "limits": len(_limits_of(rules).shared),
        "obstacles": len(found.obstacle),
        "quotas": len(found.quotas),
        "admission_ms": milliseconds(lambda: admission(rules, jobs, waiting, NOW), options.repeat),
        "parse_ms": milliseconds(lambda: list(assoc_mgr.associations(plain)), options.repeat),
        "parse_all_limited_ms": milliseconds(lambda: list(assoc_mgr.associations(limited)), options.repeat),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
