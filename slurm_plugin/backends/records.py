"""One record of `squeue --json` or `scontrol/sinfo --json` -> SlurmJob, SlurmNode.

Slurm 22.05 writes plain numbers and one state word, later ones write {"set", "infinite", "number"} and a list of words; the
names of the fields are the same, so one reader serves all. The pyslurm worker sends records of this shape too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tiresias.slurm_plugin.backends import parse
from tiresias.slurm_plugin.backends.parse import number
from tiresias.slurm_plugin.backends.protocol import NodeShare, SlurmJob, SlurmNode

Record = Mapping[str, Any]

JOB_STATES = frozenset(
    {
        "PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
        "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
    }
)  # fmt: skip
NODE_STATES = frozenset({"IDLE", "MIXED", "ALLOCATED", "DOWN", "UNKNOWN", "FUTURE", "ERROR"})
ACTIVE = frozenset({"RUNNING", "SUSPENDED"})


def jobs(record: Record, now: float) -> Iterator[SlurmJob]:
    """The jobs of one record: one, or one for each waiting task of an array that is not split yet."""
    job = _job(record, now)
    tasks = parse.array_tasks(record.get("array_task_string") or "")
    if not job.array_id or not tasks:
        yield job
        return
    for task in tasks:
        yield replace(job, id=f"{job.array_id}_{task}")


def _job(record: Record, now: float) -> SlurmJob:
    states = _words(record["job_state"])
    completing = "COMPLETING" in states
    state = next((one for one in states if one in JOB_STATES), "") or _hidden_state(record, states, now)
    waits, ended = state == "PENDING", state not in ACTIVE and state != "PENDING"
    gpus, gpu_type, per_node = _requested_gpus(record)
    shares = _shares(record, gpus if completing else 0) if state in ACTIVE or completing else ()
    held = 0 if completing else sum(share.gpus for share in shares)
    # Of one task only one node is of use. 22.05 alone does not say so: where it asks for no limit, the task is the limit.
    return SlurmJob(
        id=_id(record),
        raw_id=number(record["job_id"]),
        array_id=number(record.get("array_job_id")),
        het_id=number(record.get("het_job_id")),
        name=record.get("name") or "",
        user=record.get("user_name") or "",
        uid=number(record.get("user_id")),
        account=record.get("account") or "",
        partition=record.get("partition") or "",
        state=state,
        completing=completing,
        reason=record.get("state_reason") or "None",
        priority=number(record.get("priority")),
        restarts=number(record.get("restart_cnt")),
        submit_time=number(record.get("submit_time")),
        begin_time=number(record.get("eligible_time")),
        start_time=0 if waits else number(record.get("start_time")),
        end_time=number(record.get("end_time")) if ended else 0,
        time_limit=60 * number(record.get("time_limit")),
        gpus=held or gpus,
        gpu_type=gpu_type,
        gpus_per_node=per_node,
        min_nodes=max(1, number(record.get("node_count"))),
        max_nodes=number(record.get("max_nodes")) or int(waits and number(record.get("tasks")) == 1),
        cpus=number(record.get("cpus")),
        memory_per_node=number(record.get("memory_per_node")),
        memory_per_cpu=number(record.get("memory_per_cpu")),
        features=record.get("features") or "",
        required_nodes=parse.hosts(record.get("required_nodes") or ""),
        excluded_nodes=parse.hosts(record.get("excluded_nodes") or ""),
        shares=shares,
        requeue=bool(record.get("requeue")),
        batch=bool(record.get("batch_flag")),
        reservation=record.get("resv_name") or "",
        dependency=record.get("dependency") or "",
        exit_code=parse.exit_code(record.get("exit_code")) if ended else -1,
        script=parse.script(record.get("command") or ""),
        qos=record.get("qos") or "",
        licenses=record.get("licenses") or "",
        array_limit=number(record.get("array_max_tasks")),
        exclusive="NONE" in _words(record.get("shared") or []),
    )


def _words(value: Any) -> list[str]:
    return [str(one).upper() for one in (value if isinstance(value, list) else [value])]


def _id(record: Record) -> str:
    """What squeue's %i prints: 7, 12_3 for a task of an array, 14+1 for a component of a het job."""
    if number(record.get("het_job_id")):
        return f"{number(record['het_job_id'])}+{number(record.get('het_job_offset'))}"
    task = record.get("array_task_id")
    is_set = task.get("set") if isinstance(task, dict) else task is not None
    if number(record.get("array_job_id")) and is_set:
        return f"{number(record['array_job_id'])}_{number(task)}"
    return str(number(record["job_id"]))


def _hidden_state(record: Record, states: Sequence[str], now: float) -> str:
    """Slurm 22.05 shows a flag in place of the state. A requeued job's end time lies ahead, an ended one's behind."""
    if "COMPLETING" not in states:
        return "RUNNING"  # CONFIGURING, SIGNALING, STAGE_OUT, ...
    if not number(record.get("end_time")) or number(record.get("end_time")) > now:
        return "PENDING"
    reasons = {"TimeLimit": "TIMEOUT", "NodeDown": "NODE_FAIL", "OutOfMemory": "OUT_OF_MEMORY"}
    ended = "FAILED" if number(record.get("exit_code")) else "COMPLETED"
    return reasons.get(record.get("state_reason") or "", ended)


def _requested_gpus(record: Record) -> tuple[int, str, int]:
    """(all GPUs, type, GPUs per node or 0) of the request, in whichever of sbatch's ways it was made.

    tres_req_str has the total only where AccountingStorageTRES has gres/gpu.
    """
    nodes = max(1, number(record.get("node_count")))
    sockets = nodes * max(1, number(record.get("sockets_per_node")))
    ways = (("job", 1), ("task", number(record.get("tasks"))), ("node", nodes), ("socket", sockets))
    found = {way: parse.gpus(record.get(f"tres_per_{way}") or "") for way, _ in ways}
    totals = [found[way][0] * times for way, times in ways if found[way][0]]
    accounted = parse.gpus(record.get("tres_req_str") or "")
    kind = next((one[1] for one in (*found.values(), accounted) if one[1]), "")
    per_node = found["node"][0] or found["socket"][0] * sockets // nodes
    return totals[0] if totals else accounted[0], kind, per_node


def _shares(record: Record, leaving: int) -> tuple[NodeShare, ...]:
    """What the job holds on each node that it has not given back yet.

    Slurm lists GRES in the order of the nodes, but no longer once the job is COMPLETING: then its `leaving` GPUs count as spread
    evenly, for want of memory of the run (memory.py has it).
    """
    details = record.get("gres_detail") or []
    left = set(parse.hosts(record.get("nodes") or ""))
    allocated = list(_allocated(record.get("job_resources") or {}))
    if not details and leaving and allocated:
        details = [f"gpu:{math.ceil(leaving / len(allocated))}"] * len(allocated)
    return tuple(
        _share(node, cpus, memory, details[at] if at < len(details) else "")
        for at, (node, cpus, memory) in enumerate(allocated)
        if node in left
    )


def _allocated(resources: Record) -> Iterator[tuple[str, int, int]]:
    """(node, CPUs, MB) of every node of the allocation."""
    for one in resources.get("allocated_nodes") or []:  # 22.05
        cores = [core for socket in one["sockets"].values() for core in socket["cores"].values()]
        yield one["nodename"], sum(core.startswith("allocated") for core in cores), number(one["memory_allocated"])
    nodes = resources.get("nodes")
    for one in nodes.get("allocation") or [] if isinstance(nodes, dict) else []:
        yield one["name"], number(one["cpus"]["count"]), number(one["memory"]["allocated"])


def _share(node: str, cpus: int, memory: int, detail: str) -> NodeShare:
    count, _, indexes = parse.gpus(detail)
    return NodeShare(node, count, cpus, memory, indexes)


def node(record: Record) -> SlurmNode:
    states = _words(record["state"]) + _words(record.get("state_flags") or [])
    total, kind, _ = parse.gpus(record.get("gres") or "")
    return SlurmNode(
        name=record["name"],
        state=next((one for one in states if one in NODE_STATES), "UNKNOWN"),
        flags=frozenset(states) - NODE_STATES,
        reason=record.get("reason") or "",
        gpus=total,
        gpus_allocated=parse.gpus(record.get("gres_used") or "")[0],
        gpu_type=kind,
        cpus=number(record.get("effective_cpus")) or number(record.get("cpus")),
        cpus_allocated=number(record.get("alloc_cpus")),
        memory=number(record.get("real_memory")) - number(record.get("specialized_memory")),
        memory_allocated=number(record.get("alloc_memory")),
        features=_list(record.get("active_features")),
        partitions=_list(record.get("partitions")),
    )


def _list(value: Any) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, list) else tuple(one for one in (value or "").split(",") if one)
