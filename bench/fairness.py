"""What fairness costs and gains, and what gaming gains, a JSON line a run.

    python bench/fairness.py prices [--traces DIR] [--policy adaptive,las] [philly|helios_a|helios_b ...]
    python bench/fairness.py gaming [--traces DIR] [--policy adaptive,las,gittins] [--user NAME]

A preemption costs 62 s at the next start, the paper's mean. `prices`: Jain index and worst slowdown of owners and the mean JCT of
all jobs (simulator/outcome_metrics.py), of Philly's virtual clusters as accounts and of Helios's users. `worst_ratio`: the highest
finish-time ratio (Themis, NSDI 2020): the completion times of an owner's jobs over those on GPUs of its own, its share of the
cluster, under processor sharing and with nothing lost. Up to 1 no owner would be better off with its share as a private cluster.

`gaming`: a user of helios_a, that with the most work, changes how it submits the same work; gain: the mean completion time of its
jobs before the change over that after it. 1: no gain. `others`: the same quotient of all other jobs, below 1: they lose. `alone`:
the gain where the user has the cluster to itself, which is that of running parts at the same time.

  split    each job is 8 jobs of an eighth of the seconds, submitted at once
  array    the same as tasks of an array
  chain    each job is a chain of 8 jobs, each submitted at the earliest moment at which the one before could have ended
  resubmit each job is cancelled before it sinks to the second queue, and submitted again for the rest, likewise
  rename   each job has another name and id
  accounts the jobs of the user are spread over 4 accounts (fairness accounts)
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Set
from dataclasses import replace
from heapq import heappop, heappush
from pathlib import Path

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Floats, Ints
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.experiments.experiment import Setup
from tiresias.simulator.outcome import Outcome
from tiresias.simulator.outcome_metrics import by_owner
from tiresias.simulator.simulated_owners import owners_of
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Cost
from tiresias.simulator.trace import Trace, TraceJob, read_trace

COST = Cost(resume=62.0)
TRACES = {  # file, GPUs, kind of owners
    "philly": ("philly_full.csv.gz", 1800, "accounts"),
    "helios_a": ("traces/helios_venus_may28_a.csv.gz", 280, "users"),
    "helios_b": ("traces/helios_venus_may28_b.csv.gz", 280, "users"),
}
PARTS = 8
THRESHOLD = 3600.0  # GPU-seconds
DAY = 86400.0
Parts = Iterator[TraceJob]


def configured(policy: str, **options: object) -> PolicyConfig:
    return replace(PolicyConfig(), name=policy, thresholds=(THRESHOLD,), **options)  # type: ignore[arg-type]


def run(trace: Trace, gpus: int, policy: str, config: PolicyConfig) -> Outcome:
    experiment = Setup("", trace, ClusterSize(gpus, 1), config, COST).experiment(policy)
    return simulate(experiment.trace, experiment.cluster, experiment.rules)


def prices(folder: Path, names: list[str], policies: list[str]) -> None:
    for name in names:
        file, gpus, kind = TRACES[name]
        trace = read_trace(folder / file, gpus)
        for policy in policies:
            for label, options in variants(kind):
                outcome = run(trace, gpus, policy, configured(policy, **options))
                owner = owners_of(trace, kind)
                found = by_owner(owner, trace, outcome)
                found["worst_ratio"] = worst_ratio(trace, gpus, owner, outcome)
                numbers = {key: round(value, 4) for key, value in found.items()}
                jct = {"mean_jct": round(float(outcome.jct.mean())), "preemptions": int(outcome.preemptions.sum())}
                print(
                    json.dumps({"trace": name, "gpus": gpus, "policy": policy, "with": label, **jct, **numbers}),
                    flush=True,
                )


def variants(kind: str) -> Iterator[tuple[str, dict[str, object]]]:
    yield "no fairness", {}
    yield f"fairness {kind}", {"fairness": kind}


def worst_ratio(trace: Trace, gpus: int, owner: Ints, outcome: Outcome) -> float:
    owners = np.unique(owner)
    rows = [np.flatnonzero(owner == each) for each in owners]
    alone = [private_times(trace, each, gpus / len(owners)).sum() for each in rows]
    return float(max(outcome.jct[each].sum() / time for each, time in zip(rows, alone, strict=True) if time))


def private_times(trace: Trace, rows: Ints, gpus: float) -> Floats:
    """Return the completion times of one owner's jobs under processor sharing on GPUs of its own, or their durations if longer."""
    work = trace.gpus[rows] * trace.duration[rows]
    now = served = 0.0  # moment; GPU-seconds that each present job has had
    present, end = list[tuple[float, int]](), np.zeros(len(rows))
    for moment, job in [*zip(trace.submit[rows].tolist(), range(len(rows)), strict=True), (np.inf, -1)]:
        while present and now + (present[0][0] - served) * len(present) / gpus <= moment:
            target, first = present[0]
            now, served = now + (target - served) * len(present) / gpus, target
            heappop(present)
            end[first] = now
        if job >= 0:
            served += (moment - now) * gpus / len(present) if present else 0.0
            now = moment
            heappush(present, (served + float(work[job]), job))
    return np.maximum(end - trace.submit[rows], trace.duration[rows])


def split(job: TraceJob, array: bool = False) -> Parts:
    for part in range(PARTS):
        name = f"{job.job_id}_{part}" if array else f"{int(job.job_id) * 100 + 10_000_000 + part}"
        yield replace(job, job_id=name, duration=job.duration / PARTS)


def chain(job: TraceJob) -> Parts:
    return sliced(job, job.duration / PARTS)


def resubmit(job: TraceJob) -> Parts:
    return sliced(job, 0.95 * THRESHOLD / job.num_gpus)


def sliced(job: TraceJob, most: float) -> Parts:
    for part in range(math.ceil(job.duration / most) if most else 0):
        name, at = f"{10_000_000_000 + int(job.job_id) * 10_000 + part}", part * most
        yield replace(job, job_id=name, submit_time=job.submit_time + at, duration=min(most, job.duration - at))


def rename(job: TraceJob) -> Parts:
    yield replace(job, job_id=f"{900_000_000 - int(job.job_id)}", model="another")


def accounts(job: TraceJob) -> Parts:
    yield replace(job, vc=f"{job.vc}-{int(job.job_id) % 4}")


STRATEGIES: dict[str, Callable[[TraceJob], Parts]] = {
    "split": split,
    "array": lambda job: split(job, array=True),
    "chain": chain,
    "resubmit": resubmit,
    "rename": rename,
    "accounts": accounts,
}


def changed(trace: Trace, user: str, strategy: Callable[[TraceJob], Parts]) -> tuple[Trace, dict[str, str]]:
    """Return the trace with the user's jobs changed, and which job of the original each job belongs to."""
    jobs, origin = list[TraceJob](), dict[str, str]()
    for job in trace.jobs():
        for part in strategy(job) if job.user == user else (job,):
            jobs.append(part)
            origin[part.job_id] = job.job_id
    return Trace.of(jobs), origin


def completion_times(trace: Trace, outcome: Outcome, origin: dict[str, str], before: Trace) -> dict[str, float]:
    """Return the seconds from the submission of each original job to the end of its last part."""
    submit = dict(zip(before.job_id, before.submit.tolist(), strict=True))
    ends = dict[str, float]()
    for job, finish in zip(trace.job_id, outcome.finish.tolist(), strict=True):
        ends[origin[job]] = max(ends.get(origin[job], 0.0), finish)
    return {job: end - submit[job] for job, end in ends.items()}


def gains(
    trace: Trace, honest: dict[str, float], gpus: int, user: str, policy: str, config: PolicyConfig, strategy: str
) -> tuple[float, float]:
    """Return the gain of the user that games, and that of all others (nan: there are none)."""
    gamed, origin = changed(trace, user, STRATEGIES[strategy])
    after = completion_times(gamed, run(gamed, gpus, policy, config), origin, trace)
    own = {job for job, name in zip(trace.job_id, trace.user, strict=True) if name == user}
    return gain(honest, after, own), gain(honest, after, honest.keys() - own)


def gain(honest: dict[str, float], after: dict[str, float], jobs: Set[str]) -> float:
    if not jobs:
        return float("nan")
    return float(np.mean([honest[job] for job in jobs]) / np.mean([after[job] for job in jobs if job in after]))


def honestly(trace: Trace, gpus: int, policy: str, config: PolicyConfig) -> dict[str, float]:
    return completion_times(trace, run(trace, gpus, policy, config), {job: job for job in trace.job_id}, trace)


def with_accounts(trace: Trace) -> Trace:
    """Return the trace with the user as the account of each job."""
    return trace.with_clusters([*trace.user])


def heaviest(trace: Trace) -> str:
    names, owner = np.unique(trace.user, return_inverse=True)
    return str(names[np.bincount(owner, trace.gpus * trace.duration).argmax()])


def gaming(folder: Path, policies: list[str], name: str | None) -> None:
    file, gpus, _ = TRACES["helios_a"]
    trace = with_accounts(read_trace(folder / file, gpus))
    user = name or heaviest(trace)
    own = Trace.of(job for job in trace.jobs() if job.user == user)
    for policy in policies:
        for label, options in games():
            config, jobs = configured(policy, **options), own if label == "alone" else trace
            honest = honestly(jobs, gpus, policy, config)
            for strategy in STRATEGIES if options.get("fairness") == "accounts" else [*STRATEGIES][:-1]:
                own_gain, others = gains(jobs, honest, gpus, user, policy, config, strategy)
                numbers = {"gain": round(own_gain, 3), **({} if jobs is own else {"others": round(others, 3)})}
                line = {"policy": policy, "with": label, "strategy": strategy, "user": user, **numbers}
                print(json.dumps(line), flush=True)


def games() -> Iterator[tuple[str, dict[str, object]]]:
    yield "alone", {}
    yield "no fairness", {}
    yield "fairness users", {"fairness": "users"}
    yield "fairness accounts", {"fairness": "accounts"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("what", choices=("prices", "gaming"))
    parser.add_argument("trace", nargs="*", metavar="TRACE", help=", ".join(TRACES))
    parser.add_argument("--traces", type=Path, default=beside, help=f"folder with the traces (default: {beside})")
    parser.add_argument("--policy", default="adaptive,las")
    parser.add_argument("--user", help="of gaming (default: that with the most work)")
    args = parser.parse_intermixed_args()
    if args.what == "gaming":
        gaming(args.traces, args.policy.split(","), args.user)
    else:
        prices(args.traces, args.trace or [*TRACES], args.policy.split(","))


if __name__ == "__main__":
    main()
