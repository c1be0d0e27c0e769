"""The published status as metrics for Prometheus. Pure.

Names begin with tiresias_ and contain the unit (seconds, GPUs). No label names a user or a job; accounts are named only on
request. Unknown values have no sample.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from tiresias.protocol.status import PublishedNode, Status
from tiresias.slurm_plugin.state.totals import by_partition
from tiresias.slurm_plugin.views.cell_metrics import cell_metrics, fragmentation
from tiresias.slurm_plugin.views.gpu_use import is_unused

_SUMS = {
    "runs": ("runs", "Runs that began."),
    "preemptions": ("preemptions", "Runs that were preempted."),
    "waited_seconds": ("waited", "Waits of jobs until their runs began, for any reason."),
}
GONE = ("DOWN", "DRAIN", "FAIL", "NOT_RESPONDING")  # in a node's state: its free GPUs are unavailable


def metrics(status: Status | None, now: float, by_account: bool = False) -> Iterator[Metric]:
    """Yield the metrics of a status.

    Args:
        status: None if no controller answers
        now: epoch seconds
        by_account: whether the partitions' sums are split by account
    """
    yield gauge("up", "Whether a leading controller answers.", 0.0 if status is None else 1.0)
    if status is not None:
        yield from _daemon(status, now)
        yield from _slurm(status)
        yield from _jobs(status)
        slow = sum(bool(job.get("slow_nodes")) for job in status.get("jobs", []))
        yield gauge(
            "straggling_jobs",
            "Jobs of which ranks or servers work for a step twice as long as the median or longer.",
            slow,
        )
        failing = sum(bool(node.get("failing")) for node in status["nodes"])
        yield gauge("failing_nodes", "Nodes on which runs of several users fail more often than elsewhere.", failing)
        slow_nodes = sum(bool(node.get("slow")) for node in status["nodes"])
        yield gauge("slow_nodes", "Nodes on which steps persistently take longer than on other nodes.", slow_nodes)
        slowness = {node["name"]: node.get("slowness") for node in status["nodes"]}
        yield labelled("node_slowness", "Seconds a step, divided by those on the median node.", "node", slowness)
        unused = [job for job in status.get("jobs", []) if is_unused(job)]
        yield gauge("idle_jobs", "Running jobs that do not use their GPUs.", len(unused))
        yield gauge("idle_gpus", "GPUs of these jobs.", sum(job.get("gpus", 0) for job in unused))
        yield _gpus(status)
        yield from _waits(status)
        yield from _totals(status.get("totals", []), by_account)
        yield from cell_metrics(status.get("virtual_clusters", []))
        fragmented = "Share of the nodes with some free GPUs that cannot give all of their GPUs."
        yield gauge("fragmentation", fragmented, fragmentation(status["nodes"]))


def _daemon(status: Status, now: float) -> Iterator[Metric]:
    words = {name: str(status.get(name, "")) for name in ("cluster", "mode", "backend", "slurm", "tiresias")}
    yield InfoMetricFamily(
        "tiresias_controller", "Versions and configuration.", words | {"policy": str(status["policy"]["name"])}
    )
    leader: Mapping[str, Any] = status.get("leader") or {}
    cycle = status["cycle"]
    yield gauge("leader_epoch", "Grows with each takeover.", leader.get("epoch"))
    yield gauge("standby", "Whether a standby controller exists.", leader.get("standby"))
    yield gauge("status_age_seconds", "Age of the newest snapshot of Slurm.", max(now - status["time"], 0.0))
    yield CounterMetricFamily("tiresias_cycles", "Cycles since the controller became leader.", cycle["count"])
    yield labelled("cycle_seconds", "Duration of a cycle; median and p99 of the newest 1000.", "of", {
        "last": cycle["seconds"], "median": cycle.get("median"), "p99": cycle.get("p99"), "snapshot": cycle.get("snapshot"),
    })  # fmt: skip
    yield gauge("period_seconds", "Interval between cycles without events.", cycle["period"])
    yield gauge("alarms", "Alarms of the controller.", len(status.get("alarms", ())))
    yield gauge("paused", "Whether preemptions are paused.", bool(status.get("paused")))
    packlimit: Mapping[str, Any] = status.get("packlimit") or {}
    yield gauge("packlimit", "Skew above which jobs consolidate.", packlimit.get("limit"))
    yield gauge("packlimit_learned", "Whether PACKLIMIT was learned from this site's jobs.", packlimit.get("learned"))
    yield labelled(
        "actions",
        "Decisions carried out since the controller became leader.",
        "action",
        dict(status.get("actions") or {}),
        CounterMetricFamily,
    )


def _slurm(status: Status) -> Iterator[Metric]:
    rpc: Mapping[str, Any] = status.get("rpc") or {}
    yield labelled("slurm_calls", "Calls to Slurm, by operation.", "verb", rpc.get("calls") or {}, CounterMetricFamily)
    yield gauge("slurm_calls_per_minute", "Recent rate of calls to Slurm.", rpc.get("per_minute"))
    yield gauge("moves_postponed", "Operations postponed by the limit on calls.", rpc.get("postponed"))
    load: Mapping[str, Any] = rpc.get("slurmctld") or {}
    yield gauge("slurmctld_threads", "Calls that slurmctld serves at once (sdiag).", load.get("threads"))
    yield gauge("slurmctld_agent_queue", "Messages that slurmctld has queued for nodes (sdiag).", load.get("queue"))


def _jobs(status: Status) -> Iterator[Metric]:
    jobs = GaugeMetricFamily("tiresias_jobs", "Managed jobs by queue and state.", labels=("queue", "state"))
    gpus = GaugeMetricFamily("tiresias_job_gpus", "GPUs that managed jobs hold or request.", labels=("queue", "state"))
    for queue in status["queues"]:
        index = str(queue["index"])
        for family, prefix in ((jobs, ""), (gpus, "gpus_")):
            for state in ("running", "starting", "waiting"):
                family.add_metric((index, state), dict(queue)[prefix + state])  # type: ignore[arg-type]  # a number
    yield jobs
    yield gpus
    waits = [job["waited"] for job in status["jobs"] if job["state"] == "WAITING"]
    yield labelled(
        "waiting_seconds",
        "Wait of the waiting jobs since their last run.",
        "of",
        {
            "median": statistics.median(waits) if waits else 0.0,
            "longest": max(waits, default=0.0),
        },
    )
    yield gauge(
        "unpreemptable_jobs",
        "Running jobs that may not be preempted now.",
        sum(job["state"] == "RUNNING" and not job["preemptable"] for job in status["jobs"]),
    )
    yield gauge(
        "reporting_jobs",
        "Jobs whose programs report how much work is left.",
        sum(job.get("remaining") is not None for job in status["jobs"]),
    )


def _waits(status: Status) -> Iterator[Metric]:
    waits: dict[str, list[float]] = {}
    for job in status["jobs"]:
        if job["state"] == "WAITING":
            waits.setdefault(job["partition"], []).append(job["waited"])
    count, longest = ({name: one(each) for name, each in waits.items()} for one in (len, max))
    yield labelled("partition_waiting_jobs", "Waiting jobs, by partition.", "partition", count)
    yield labelled(
        "partition_longest_wait_seconds", "Longest wait of a waiting job since its last run.", "partition", longest
    )


def _totals(rows: Sequence[Mapping[str, Any]], by_account: bool) -> Iterator[Metric]:
    """Yield the counters since the controller became leader."""
    labels = ("partition", "account") if by_account else ("partition",)
    rows = rows if by_account else by_partition(rows)
    for name, (key, what) in _SUMS.items():
        family = CounterMetricFamily(f"tiresias_{name}", what, labels=labels)
        for row in rows:
            family.add_metric([row[label] for label in labels], row[key])
        yield family
    lost = CounterMetricFamily(
        "tiresias_lost_gpu_seconds", "GPU-seconds without progress because of preemptions.", labels=(*labels, "by")
    )
    for row in rows:
        for kind in ("saving", "restoring", "redone"):
            lost.add_metric([*(row[label] for label in labels), kind], row[kind])
    yield lost


def _gpus(status: Status) -> Metric:
    use = dict.fromkeys(("managed", "others", "free", "gone"), 0)
    for node in status["nodes"]:
        managed = sum(gpus for _, gpus in node["allocations"])
        left = node["gpus"] - managed - node["other_gpus"]
        use["managed"] += managed
        use["others"] += node["other_gpus"]
        use["gone" if _is_gone(node) else "free"] += max(left, 0)
    return labelled("gpus", "GPUs of the managed partitions' nodes, by use.", "use", use)


def _is_gone(node: PublishedNode) -> bool:
    return any(word in node["state"] for word in GONE)


def gauge(name: str, what: str, value: float | None) -> Metric:
    family = GaugeMetricFamily(f"tiresias_{name}", what)
    if value is not None:
        family.add_metric((), float(value))
    return family


def labelled(
    name: str,
    what: str,
    label: str,
    values: Mapping[str, float | None],
    kind: type[GaugeMetricFamily] | type[CounterMetricFamily] = GaugeMetricFamily,
) -> Metric:
    family = kind(f"tiresias_{name}", what, labels=(label,))
    for word, value in values.items():
        if value is not None:
            family.add_metric((word,), float(value))
    return family
