"""One record of `squeue --json` or `scontrol/sinfo --json` -> SlurmJob, SlurmNode.

Slurm 22.05 writes plain numbers and one state word, later ones write {"set", "infinite", "number"} and a list of words; the
names of the fields are the same, so one reader serves all. The pyslurm worker sends records of this shape too.

A record that cannot be read raises TypeError, ValueError, LookupError or AttributeError; unreadable.py has what becomes of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tiresias.scheduler.host_lists import MAX_HOSTS, host_list, hosts
from tiresias.slurm_plugin.backends import parse
from tiresias.slurm_plugin.backends.bounds import (
    MAX_ARRAY_TASKS,
    MAX_CPUS,
    MAX_EPOCH_S,
    MAX_GPUS,
    MAX_MEMORY_MIB,
    MAX_NODES,
    MAX_TIME_S,
    MAX_UINT32,
    why_unmanaged,
)
from tiresias.slurm_plugin.backends.interface import Comments, NodeShare, SlurmJob, SlurmNode, StatedGpus
from tiresias.slurm_plugin.backends.parse import number

Record = Mapping[str, Any]

JOB_STATES = frozenset(
    {
        "PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
        "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
    }
)  # fmt: skip
NODE_STATES = frozenset({"IDLE", "MIXED", "ALLOCATED", "DOWN", "UNKNOWN", "FUTURE", "ERROR"})
ACTIVE = frozenset({"RUNNING", "SUSPENDED"})
_WAYS = ("job", "node", "socket", "task")
MAX_COMMENT = 200  # characters of a comment that are kept


def jobs(record: Record, now: float) -> Iterator[SlurmJob]:
    """The jobs of one record: one, or one for each waiting task of an array that is not split yet."""
    job = _job(record, now)
    tasks = parse.array_tasks(_text(record, "array_task_string"))
    if len(tasks) > MAX_ARRAY_TASKS:
        job, tasks = replace(job, unmanaged=f"not managed: array of more than {MAX_ARRAY_TASKS} waiting tasks"), []
    if not job.array_id or not tasks:
        yield job
        return
    for task in tasks:
        yield replace(job, id=f"{job.array_id}_{task}")


def _job(record: Record, now: float) -> SlurmJob:
    states = words(record["job_state"])
    completing = "COMPLETING" in states
    state = next((one for one in states if one in JOB_STATES), "") or _hidden_state(record, states, now)
    waits, ended = state == "PENDING", state not in ACTIVE and state != "PENDING"
    requested, gpu_type, per_node = _requested_gpus(record)
    gpus = min(requested, MAX_GPUS)
    shares = _shares(record, gpus if completing else 0) if state in ACTIVE or completing else ()
    held = 0 if completing else min(sum(share.gpus for share in shares), MAX_GPUS)
    required, excluded = (host_list(_text(record, field)) for field in ("required_nodes", "excluded_nodes"))
    has_cpus_per_gpu = bool(_text(record, "cpus_per_tres"))
    # One task can use only one node. 22.05 alone does not show this: a request without a limit is limited by its tasks.
    return SlurmJob(
        id=id_of(record),
        raw_id=number_of(record),
        array_id=number(record.get("array_job_id"), MAX_UINT32),
        het_id=number(record.get("het_job_id"), MAX_UINT32),
        name=_text(record, "name"),
        user=_text(record, "user_name"),
        uid=number(record["user_id"], MAX_UINT32),
        account=_text(record, "account"),
        partition=_text(record, "partition"),
        state=state,
        completing=completing,
        reason=_text(record, "state_reason") or "None",
        priority=number(record.get("priority"), MAX_UINT32),
        restarts=number(record.get("restart_cnt"), MAX_UINT32),
        submit_time=_moment(record, "submit_time"),
        begin_time=_moment(record, "eligible_time"),
        start_time=0 if waits else _moment(record, "start_time"),
        end_time=_moment(record, "end_time") if ended else 0,
        time_limit=min(60 * number(record.get("time_limit")), MAX_TIME_S),
        gpus=(held or gpus) if gpus else 0,  # --exclusive without --gres holds GPUs that it did not ask for
        gpu_type=gpu_type,
        gpus_per_node=min(per_node, MAX_GPUS),
        min_nodes=max(1, number(record.get("node_count"), MAX_NODES)),
        max_nodes=number(record.get("max_nodes"), MAX_NODES) or int(waits and number(record.get("tasks")) == 1),
        cpus=number(record.get("cpus"), MAX_CPUS),
        memory_per_node=number(record.get("memory_per_node"), MAX_MEMORY_MIB),
        memory_per_cpu=number(record.get("memory_per_cpu"), MAX_MEMORY_MIB),
        features=_text(record, "features"),
        required_nodes=required[0],
        excluded_nodes=excluded[0],
        shares=shares,
        requeue=bool(record.get("requeue")),
        # 22.05 shows false for a batch job that it requeued as its node had lost it (BatchFlag=2); Slurm requeues no other jobs
        batch=bool(record.get("batch_flag")) or number(record.get("restart_cnt"), MAX_UINT32) > 0,
        reservation=_text(record, "resv_name"),
        dependency=_text(record, "dependency"),
        exit_code=parse.exit_code(record.get("exit_code")) if ended else -1,
        script=parse.script(_text(record, "command")),
        opportunistic=parse.choice(_text(record, "command")),
        elastic=parse.sizes(_text(record, "command")),
        command=_text(record, "command"),
        qos=_text(record, "qos"),
        licenses=_text(record, "licenses"),
        array_limit=number(record.get("array_max_tasks"), MAX_UINT32),
        exclusive="NONE" in words(record.get("shared") or []),
        sharing=next(filter(None, (parse.sharing(_text(record, f"tres_per_{way}")) for way in _WAYS)), ""),
        tasks=number(record.get("tasks"), MAX_UINT32) or 1,
        tasks_per_node=_stated(record.get("tasks_per_node")),
        tasks_per_socket=_stated(record.get("tasks_per_socket")),
        tasks_per_gpu=_stated(record.get("tasks_per_tres")),
        cpus_per_task=0 if has_cpus_per_gpu else _stated(record.get("cpus_per_task")),
        cpus_each_node=number(record.get("minimum_cpus_per_node"), MAX_UINT32),
        gpus_per_socket=min(parse.gpus(_text(record, "tres_per_socket"))[0], MAX_GPUS),
        has_cpus_per_gpu=has_cpus_per_gpu,
        stated_gpus=_stated_gpus(record) if waits else (),
        nice=_nice(record),
        comments=comments(record),
        unmanaged=_why_unmanaged(record, requested, required[1] or excluded[1]) if waits else "",
    )


def _nice(record: Record) -> int:
    """0 where there is none."""
    value = record.get("nice")
    return min(max(value, -MAX_UINT32), MAX_UINT32) if isinstance(value, int) else 0


def comments(record: Record) -> Comments:
    """Return the comments of a record."""
    return Comments(_text(record, "admin_comment")[:MAX_COMMENT], _text(record, "comment")[:MAX_COMMENT])


def _why_unmanaged(record: Record, gpus: int, is_cut: bool) -> str:
    """Of a pending job; `is_cut`: one of its host lists is longer than MAX_HOSTS."""
    if is_cut:
        return f"not managed: a host list of more than {MAX_HOSTS} nodes"
    memory = max(number(record.get("memory_per_node")), number(record.get("memory_per_cpu")))
    nodes, cpus, tasks = (number(record.get(field)) for field in ("node_count", "cpus", "tasks"))
    return why_unmanaged(gpus, nodes, cpus, tasks, memory)


def number_of(record: Record) -> int:
    """Of the record itself."""
    found = number(record["job_id"])
    if not 0 < found <= MAX_UINT32:
        raise ValueError(f"job_id: {found} is no job id")
    return found


def _stated(value: Any) -> int:
    """A number of 16 bits, of which the two highest mean that nothing is stated."""
    found = number(value, MAX_UINT32)
    return found if found < 0xFFFE else 0


def _text(record: Record, field: str) -> str:
    """ "" where there is none."""
    found = record.get(field) or ""
    if not isinstance(found, str):
        raise TypeError(f"{field}: {found!s:.40} is no text")
    return _encodable(found)


def _encodable(text: str) -> str:
    """What UTF-8 cannot encode is replaced: texts go to files, sockets and the state database."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _moment(record: Record, field: str) -> int:
    return number(record.get(field), MAX_EPOCH_S)


def words(value: Any) -> list[str]:
    """States: a list, or one word (22.05)."""
    return [_encodable(str(one)).upper() for one in (value if isinstance(value, list) else [value])]


def id_of(record: Record) -> str:
    """What squeue's %i prints: 7, 12_3 for a task of an array, 14+1 for a component of a het job."""
    array, het = (number(record.get(field), MAX_UINT32) for field in ("array_job_id", "het_job_id"))
    if het:
        return f"{het}+{number(record.get('het_job_offset'), MAX_UINT32)}"
    task = record.get("array_task_id")
    is_set = task.get("set") if isinstance(task, dict) else task is not None
    if array and is_set:
        return f"{array}_{number(task, MAX_UINT32)}"
    return str(number_of(record))


def _hidden_state(record: Record, states: Sequence[str], now: float) -> str:
    """Slurm 22.05 shows a flag in place of the state. A requeued job's end time is in the future, an ended one's in the past."""
    if "COMPLETING" not in states:
        return "RUNNING"  # CONFIGURING, SIGNALING, STAGE_OUT, ...
    if not number(record.get("end_time")) or number(record.get("end_time")) > now:
        return "PENDING"
    reasons = {"TimeLimit": "TIMEOUT", "NodeDown": "NODE_FAIL", "OutOfMemory": "OUT_OF_MEMORY"}
    ended = "FAILED" if number(record.get("exit_code")) else "COMPLETED"
    return reasons.get(_text(record, "state_reason"), ended)


def _requested_gpus(record: Record) -> tuple[int, str, int]:
    """(all GPUs, type, GPUs per node or 0) of the request, in whichever of sbatch's ways it was made.

    tres_req_str has the total only where AccountingStorageTRES has gres/gpu.
    """
    nodes = max(1, number(record.get("node_count")))
    sockets = nodes * max(1, number(record.get("sockets_per_node")))
    ways = (("job", 1), ("task", number(record.get("tasks"))), ("node", nodes), ("socket", sockets))
    found = {way: parse.gpus(_text(record, f"tres_per_{way}")) for way, _ in ways}
    totals = [found[way][0] * times for way, times in ways if found[way][0]]
    accounted = parse.gpus(_text(record, "tres_req_str"))
    kind = next((one[1] for one in (*found.values(), accounted) if one[1]), "")
    per_node = found["node"][0] or found["socket"][0] * sockets // nodes
    return totals[0] if totals else accounted[0], kind, per_node


def _stated_gpus(record: Record) -> tuple[StatedGpus, ...]:
    """The GPUs of the request by option; () where one states GPUs of several types."""
    texts = {per: _text(record, f"tres_per_{per}") for per in ("job", "node", "task", "socket")}
    found = [(per, *parse.gpus_beside(text)) for per, text in texts.items()]
    if any(len(gpus) > 1 for _, gpus, _ in found):
        return ()
    return tuple(
        StatedGpus(per, min(count, MAX_GPUS), kind, beside) for per, gpus, beside in found for count, kind in gpus
    )


def _shares(record: Record, leaving: int) -> tuple[NodeShare, ...]:
    """What the job holds on each node that it has not given back yet.

    Slurm lists GRES in the order of the nodes, but no longer once the job is COMPLETING: then its `leaving` GPUs count as spread
    evenly, unless memory.py has recorded the run.
    """
    details = record.get("gres_detail") or []
    left = set(hosts(_text(record, "nodes")))
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
        yield (
            _text(one, "nodename"),
            sum(core.startswith("allocated") for core in cores),
            _memory(one["memory_allocated"]),
        )
    nodes = resources.get("nodes")
    for one in nodes.get("allocation") or [] if isinstance(nodes, dict) else []:
        yield _text(one, "name"), number(one["cpus"]["count"], MAX_CPUS), _memory(one["memory"]["allocated"])


def _memory(value: Any) -> int:
    return number(value, MAX_MEMORY_MIB)


def _share(node: str, cpus: int, memory: int, detail: str) -> NodeShare:
    count, _, indexes = parse.gpus(detail)
    types = tuple((kind, min(gpus, MAX_GPUS)) for kind, gpus in parse.gpus_by_type(detail))
    return NodeShare(node, min(count, MAX_GPUS), cpus, memory, indexes, types, parse.shared_gpus(detail))


def node(record: Record) -> SlurmNode:
    """Return the node of a record."""
    states = words(record["state"]) + words(record.get("state_flags") or [])
    total, kind, _ = parse.gpus(_text(record, "gres"))
    cpus = number(record.get("effective_cpus"), MAX_CPUS) or number(record.get("cpus"), MAX_CPUS)
    return SlurmNode(
        name=_node_name(record),
        state=next((one for one in states if one in NODE_STATES), "UNKNOWN"),
        flags=frozenset(states) - NODE_STATES,
        reason=_text(record, "reason"),
        gpus=min(total, MAX_GPUS),
        gpus_allocated=min(parse.gpus(_text(record, "gres_used"))[0], MAX_GPUS),
        gpu_type=kind,
        gpus_by_type=tuple((kind, min(gpus, MAX_GPUS)) for kind, gpus in parse.gpus_by_type(_text(record, "gres"))),
        sharing=parse.sharing(_text(record, "gres")),
        gpu_sockets=parse.gpu_sockets(_text(record, "gres")),
        cpus=cpus,
        cpus_allocated=number(record.get("alloc_cpus"), MAX_CPUS),
        memory=max(_memory(record.get("real_memory")) - _memory(record.get("specialized_memory")), 0),
        memory_allocated=_memory(record.get("alloc_memory")),
        features=_list(record, "active_features"),
        partitions=_list(record, "partitions"),
    )


def _node_name(record: Record) -> str:
    if not (name := _text(record, "name")):
        raise ValueError("name: there is none")
    return name


def _list(record: Record, field: str) -> tuple[str, ...]:
    """From a list (23.02 and later) or its items with commas between them."""
    found = record.get(field)
    if not isinstance(found, list):
        return tuple(one for one in _text(record, field).split(",") if one)
    return tuple(_text({field: one}, field) for one in found)
