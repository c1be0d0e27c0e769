"""The paper's testbed, 15 nodes x 4 GPUs in 3 racks, in the middle of its 480 jobs: written by hand as the daemon publishes it."""

from __future__ import annotations

from typing import Any

NOW = 1_780_000_000.0
Placement = list[tuple[str, int]]

# id, name, user, GPUs, GPU-seconds attained, seconds run, preemptions, nodes
RUNNING: list[tuple[int, str, str, int, int, int, int, Placement]] = [
    (1201, "resnet50-imagenet", "amara", 8, 1760, 220, 0, [("gpu01", 4), ("gpu02", 4)]),
    (1204, "vgg19-sweep-03", "bilal", 4, 2210, 552, 0, [("gpu03", 4)]),
    (1207, "bert-base", "chiara", 1, 310, 310, 0, [("gpu04", 1)]),
    (1208, "alexnet", "chiara", 1, 290, 290, 0, [("gpu04", 1)]),
    (1210, "inception3", "dmitri", 2, 940, 470, 0, [("gpu04", 2)]),
    (1211, "resnet152", "amara", 16, 2900, 181, 0, [("gpu05", 4), ("gpu06", 4), ("gpu08", 4), ("gpu09", 4)]),
    (1213, "googlenet", "elin", 1, 120, 120, 0, [("gpu10", 1)]),
    (1214, "vgg11 lr=1e-3", "elin", 1, 118, 118, 0, [("gpu10", 1)]),
    (1216, "vgg16", "farid", 2, 64, 32, 0, [("gpu10", 2)]),
    (1218, "resnet101", "grace", 4, 48, 12, 0, [("gpu11", 3), ("gpu12", 1)]),
    (1102, "gpt2-medium", "bilal", 4, 51200, 12800, 3, [("gpu13", 4)]),
    (1117, "vgg19", "farid", 2, 9800, 4900, 2, [("gpu12", 2)]),
    (1120, "resnet50", "grace", 1, 4200, 4200, 1, [("gpu12", 1)]),
    (1131, "diffusion-xl", "dmitri", 4, 30100, 7525, 1, [("gpu14", 4)]),
    (1140, "alexnet-big-batch", "hana", 2, 7000, 3500, 4, [("gpu15", 2)]),
]
WAITING: list[tuple[int, str, str, int, int, int, int]] = [
    (1098, "llama-finetune", "hana", 8, 88000, 11000, 5),
    (1105, "vgg19-long", "amara", 4, 42000, 10500, 2),
    (1126, "resnet152-ft", "bilal", 8, 26000, 3250, 2),
    (1133, "inception4", "chiara", 4, 12900, 3225, 1),
    *((1141 + k, f"sweep-{k:02}", "ines", 1 + k % 2, 3300 + 90 * k, 3300, 1) for k in range(20)),
]


def example_status() -> dict[str, Any]:
    running = [_job(rank, row[:7], row[7]) for rank, row in enumerate(RUNNING)]
    waiting = [_job(rank, row, []) for rank, row in enumerate(WAITING, len(running))]
    jobs = running + waiting
    running[14] |= {"phase": "saving", "why": "gives way to job 1219: Q2, place 15 in the order"}
    return {
        "version": 1, "time": NOW - 1.2, "cluster": "testbed", "mode": "exact", "backend": "pyslurm", "slurm": "26.05.5",
        "pid": 4711, "started": NOW - 86400,
        "policy": {"name": "las", "thresholds": [3200.0], "in_queue_order": "running_first"},
        "cycle": {"count": 1843, "seconds": 0.041, "period": 30.0},
        "alarms": ["gpu07 is drained: xid 79, GPU has fallen off the bus"],
        "leader": {"host": "slurm1", "pid": 4711, "epoch": 3, "since": NOW - 86400, "standby": True},
        "rpc": {
            "burst": 500, "rate": 100.0, "spent": 1850, "calls": {"snapshot": 1843}, "per_minute": 12.0, "postponed": 0,
            "slurmctld": {"threads": 3, "queue": 0, "database_queue": 2, "calls": 1850, "mean_ms": 1.24},
        },
        "queues": [_queue(0, 0.0, 3200.0, jobs), _queue(1, 3200.0, None, jobs)],
        "jobs": jobs, "nodes": [_node(number, running) for number in range(1, 16)], "decisions": [dict(one) for one in DECISIONS],
    }  # fmt: skip


DECISIONS = [
    {"time": NOW - 95, "job": "1204", "action": "start", "why": "head of Q1; consolidated on gpu03"},
    {
        "time": NOW - 61,
        "job": "1098",
        "action": "preempt",
        "why": "Q2 gives 8 GPUs to 1201 in Q1; saved step 41200 in 0.4 s",
    },
    {"time": NOW - 60, "job": "1201", "action": "start", "why": "new in Q1; consolidated on gpu01 gpu02"},
    {"time": NOW - 33, "job": "1126", "action": "wait", "why": "8 GPUs do not fit: 5 are free"},
    {"time": NOW - 12, "job": "1218", "action": "start", "why": "new in Q1; 4 GPUs over gpu11 gpu12"},
    {"time": NOW - 1, "job": "1140", "action": "preempt", "why": "for job 1219; most attained service in Q2"},
]


def _job(rank: int, row: tuple[int, str, str, int, int, int, int], nodes: Placement) -> dict[str, Any]:
    number, name, user, gpus, attained, ran, preemptions = row
    queue = int(attained >= 3200)
    place = f"Q{queue + 1}, place {rank + 1} in the order"
    return {
        "id": str(number), "name": name, "user": user, "partition": "gpu", "gpus": gpus,
        "state": "RUNNING" if nodes else "PENDING", "queue": queue, "rank": rank, "attained": float(attained),
        "ran": float(ran), "waited": 60.0 * rank, "submit_time": NOW - 20_000 + number, "start_time": NOW - ran,
        "nodes": nodes, "restarts": preemptions, "preemptions": preemptions, "preemptable": True, "step": ran * 4,
        "checkpoint_time": NOW - ran % 900 if nodes and ran > 60 else None,
        "placement": "spread" if user in ("chiara", "grace") else "consolidate",
        "profile": {"decision": "consolidate", "reasons": [], "skew": 0.61, "job": "1002"} if "vgg" in name else None,
        "phase": "",
        "why": f"runs: {place}" if nodes else f"waits: {gpus} GPUs requested, fewer remain after higher-ranked jobs; {place}",
    }  # fmt: skip


def _queue(index: int, low: float, high: float | None, jobs: list[dict[str, Any]]) -> dict[str, Any]:
    members = [job for job in jobs if job["queue"] == index]
    on, off = [job for job in members if job["nodes"]], [job for job in members if not job["nodes"]]
    return {
        "index": index,
        "low": low,
        "high": high,
        "running": len(on),
        "waiting": len(off),
        "gpus_running": sum(job["gpus"] for job in on),
        "gpus_waiting": sum(job["gpus"] for job in off),
        "starting": 0,
        "gpus_starting": 0,
    }


def _node(number: int, running: list[dict[str, Any]]) -> dict[str, Any]:
    name = f"gpu{number:02}"
    held = [(job["id"], gpus) for job in running for node, gpus in job["nodes"] if node == name]
    return {
        "name": name,
        "state": "IDLE+DRAIN" if number == 7 else "MIXED",
        "gpus": 4,
        "allocations": held,
        "other_gpus": 1 if number == 15 else 0,
        "features": [f"rack{(number + 4) // 5}"],
    }


def hostile_status() -> dict[str, Any]:
    """The same with what users and others may write into their fields."""
    status = example_status()
    names = [
        "\x1b[2J\x1b[1;1H\x07",
        "[bold red]x[/]",
        "a\r\nb\tc",
        "\u202egnitsrever",
        "模型训练-大",
        "x" * 5000,
        "é" + "\u0301" * 50,
        "\x00\ud800",
    ]
    for job, name in zip(status["jobs"], names, strict=False):
        job["name"] = name
    status["jobs"][1] |= {"user": "\x1b]0;root\x07", "why": "[red]no[/red]\x9b31m"}
    status["jobs"][16] |= {"user": "ملك", "phase": "\x1b[5m"}
    status["decisions"][-1] |= {"why": "\x1b[2J makes\nroom", "action": "\u202epreempt"}
    status["nodes"][2]["name"] = "gpu\x1b[7m03"
    status["alarms"].append("slurmctld reports:\n\x1b[31m[blink]late[/blink]")
    status["cluster"] = "test\x1bbed"
    return status
