"""What the controller published as metrics: names begin with tiresias_, and no label names a user or a job; accounts are named
only where it is asked for. Pure.

Units are in the names: seconds, GPUs. What is not known has no sample.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from tiresias.protocol.status import PublishedNode, Status
from tiresias.slurm_plugin.state.totals import by_partition

_SUMS = {
    "runs": ("runs", "Runs that began."),
    "preemptions": ("preemptions", "Runs that were preempted."),
    "waited_seconds": ("waited", "That jobs waited until their runs began, for whatever reason."),
}
GONE = ("DOWN", "DRAIN", "FAIL", "NOT_RESPONDING")  # in a node's state: its free GPUs are nobody's


def metrics(status: Status | None, now: float, by_account: bool = False) -> Iterator[Metric]:
    """status: None when no controller answers. now: epoch seconds. by_account: the partitions' sums by account, too."""
    yield _gauge("up", "Whether a controller that leads answers.", 0.0 if status is None else 1.0)
    if status is not None:
        yield from _daemon(status, now)
        yield from _slurm(status)
        yield from _jobs(status)
        yield _gpus(status)
        yield from _waits(status)
        yield from _totals(status.get("totals", []), by_account)


def _daemon(status: Status, now: float) -> Iterator[Metric]:
    words = {name: str(status.get(name, "")) for name in ("cluster", "mode", "backend", "slurm", "tiresias")}
    yield InfoMetricFamily("tiresias_controller", "What runs.", words | {"policy": str(status["policy"]["name"])})
    leader: Mapping[str, Any] = status.get("leader") or {}
    cycle = status["cycle"]
    yield _gauge("leader_epoch", "Grows with each takeover.", leader.get("epoch"))
    yield _gauge("standby", "Whether another controller waits to take over.", leader.get("standby"))
    yield _gauge("status_age_seconds", "Since the newest look at Slurm.", max(now - status["time"], 0.0))
    yield CounterMetricFamily("tiresias_cycles", "Since the controller leads.", cycle["count"])
    yield _labelled("cycle_seconds", "A cycle; median and p99 of the newest 1000.", "of", {
        "last": cycle["seconds"], "median": cycle.get("median"), "p99": cycle.get("p99"), "snapshot": cycle.get("snapshot"),
    })  # fmt: skip
    yield _gauge("period_seconds", "Between cycles, when nothing calls.", cycle["period"])
    yield _gauge("alarms", "That the controller shows.", len(status.get("alarms", ())))
    yield _gauge("paused", "Whether preemptions are paused.", bool(status.get("paused")))
    packlimit: Mapping[str, Any] = status.get("packlimit") or {}
    yield _gauge("packlimit", "Skew above which jobs consolidate.", packlimit.get("limit"))
    yield _gauge("packlimit_learned", "Whether it was learned from this site's jobs.", packlimit.get("learned"))
    yield _labelled("actions", "Decisions that were carried out, since the controller leads.", "action",
                    dict(status.get("actions") or {}), CounterMetricFamily)  # fmt: skip


def _slurm(status: Status) -> Iterator[Metric]:
    rpc: Mapping[str, Any] = status.get("rpc") or {}
    yield _labelled("slurm_calls", "To Slurm, by verb.", "verb", rpc.get("calls") or {}, CounterMetricFamily)
    yield _gauge("slurm_calls_per_minute", "Of late.", rpc.get("per_minute"))
    yield _gauge("moves_postponed", "For want of calls.", rpc.get("postponed"))
    load: Mapping[str, Any] = rpc.get("slurmctld") or {}
    yield _gauge("slurmctld_threads", "Calls that slurmctld serves at once (sdiag).", load.get("threads"))
    yield _gauge("slurmctld_agent_queue", "What slurmctld has to tell nodes (sdiag).", load.get("queue"))


def _jobs(status: Status) -> Iterator[Metric]:
    jobs = GaugeMetricFamily("tiresias_jobs", "Managed jobs by queue and state.", labels=("queue", "state"))
    gpus = GaugeMetricFamily("tiresias_job_gpus", "What they hold or ask for.", labels=("queue", "state"))
    for queue in status["queues"]:
        index = str(queue["index"])
        for family, prefix in ((jobs, ""), (gpus, "gpus_")):
            for state in ("running", "starting", "waiting"):
                family.add_metric((index, state), dict(queue)[prefix + state])  # type: ignore[arg-type]  # a number
    yield jobs
    yield gpus
    waits = [job["waited"] for job in status["jobs"] if job["state"] == "WAITING"]
    yield _labelled("waiting_seconds", "Of the jobs that wait, since they last ran.", "of", {
        "median": statistics.median(waits) if waits else 0.0, "longest": max(waits, default=0.0),
    })  # fmt: skip
    yield _gauge(
        "unpreemptable_jobs", "That run and may not be preempted now.",
        sum(job["state"] == "RUNNING" and not job["preemptable"] for job in status["jobs"]),
    )  # fmt: skip


def _waits(status: Status) -> Iterator[Metric]:
    waits: dict[str, list[float]] = {}
    for job in status["jobs"]:
        if job["state"] == "WAITING":
            waits.setdefault(job["partition"], []).append(job["waited"])
    count, longest = ({name: one(each) for name, each in waits.items()} for one in (len, max))
    yield _labelled("partition_waiting_jobs", "That wait, by partition.", "partition", count)
    yield _labelled(
        "partition_longest_wait_seconds", "Of the jobs that wait, since they last ran.", "partition", longest
    )


def _totals(rows: Sequence[Mapping[str, Any]], by_account: bool) -> Iterator[Metric]:
    """Counters since the controller leads."""
    labels = ("partition", "account") if by_account else ("partition",)
    rows = rows if by_account else by_partition(rows)
    for name, (key, what) in _SUMS.items():
        family = CounterMetricFamily(f"tiresias_{name}", what, labels=labels)
        for row in rows:
            family.add_metric([row[label] for label in labels], row[key])
        yield family
    lost = CounterMetricFamily(
        "tiresias_lost_gpu_seconds", "Without progress because of preemptions.", labels=(*labels, "by")
    )
    for row in rows:
        for kind in ("saving", "restoring", "redone"):
            lost.add_metric([*(row[label] for label in labels), kind], row[kind])
    yield lost


def _gpus(status: Status) -> Metric:
    use = dict.fromkeys(("managed", "others", "free", "gone"), 0)
    for node in status["nodes"]:
        ours = sum(gpus for _, gpus in node["allocations"])
        left = node["gpus"] - ours - node["other_gpus"]
        use["managed"] += ours
        use["others"] += node["other_gpus"]
        use["gone" if _is_gone(node) else "free"] += max(left, 0)
    return _labelled("gpus", "Of the managed partitions' nodes, by use.", "use", use)


def _is_gone(node: PublishedNode) -> bool:
    return any(word in node["state"] for word in GONE)


def _gauge(name: str, what: str, value: float | None) -> Metric:
    family = GaugeMetricFamily(f"tiresias_{name}", what)
    if value is not None:
        family.add_metric((), float(value))
    return family


def _labelled(
    name: str, what: str, label: str, values: Mapping[str, float | None],
    kind: type[GaugeMetricFamily] | type[CounterMetricFamily] = GaugeMetricFamily,
) -> Metric:  # fmt: skip
    family = kind(f"tiresias_{name}", what, labels=(label,))
    for word, value in values.items():
        if value is not None:
            family.add_metric((word,), float(value))
    return family
