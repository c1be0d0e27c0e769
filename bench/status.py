"""How long the controller takes to answer `status` on a large cluster. One core; prints JSON.

    python bench/status.py [--jobs 10000] [--nodes 2000] [--repeat 20]

answer    the first viewer after a cycle: the dictionary is made and encoded; further ones get the same bytes
make      of it, the dictionary
cycle     what the controller itself does between Slurm's answer and its own calls: ledger, observe, decide, publish
screen    of one screen: what the first viewer after a cycle costs
command   `tiresias status` as users type it on a terminal of 160 x 44, Python's start included: the first one after a cycle, and
          further ones which get what is known; me: with --me; json: the whole dictionary with --json. By the clock, and on a
          processor: of the command, and of this process, which serves it (python_start: of `python -c pass`)
Else milliseconds of this process on a processor. The records are made up, and no job has a control folder; the journal, the
ledger and the policy are the controller's own.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import platform
import pty
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tiresias.scheduler.decide import decide
from tiresias.slurm_plugin.backends.interface import NodeShare, SlurmJob, SlurmNode, SlurmSnapshot
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.observation.observer import Observer
from tiresias.slurm_plugin.sockets.control_socket import ControlServer
from tiresias.slurm_plugin.sockets.peer import Peer
from tiresias.slurm_plugin.sockets.publication import Publication, Publisher
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.ledger import Ledger

GPUS_PER_NODE = 8
SCREEN = (44, 160)  # lines and cells
SIZES = np.repeat([1, 2, 4, 8], [50, 8, 17, 25])  # percent of the jobs; none spans nodes here
NOW = 1_800_000_000
ME = Peer(os.getpid(), os.geteuid(), os.getegid())
WAITING = SlurmJob(
    id="1", raw_id=1, array_id=0, het_id=0, name="train-resnet50", user="alice", uid=1001, account="science",
    partition="gpu", state="PENDING", completing=False, reason="JobHeldAdmin", priority=0, restarts=0, submit_time=NOW,
    begin_time=NOW, start_time=0, end_time=0, time_limit=86400, gpus=1, gpu_type="", gpus_per_node=0, min_nodes=1,
    max_nodes=1, cpus=1, memory_per_node=0, memory_per_cpu=500, features="", required_nodes=(), excluded_nodes=(),
    shares=(), requeue=True, batch=True, reservation="", dependency="", exit_code=-1,
)  # fmt: skip
NODE = SlurmNode(
    name="", state="MIXED", flags=frozenset(), reason="", gpus=GPUS_PER_NODE, gpus_allocated=0, gpu_type="", cpus=128,
    cpus_allocated=0, memory=1_000_000, memory_allocated=0, features=("rack1",), partitions=("gpu",),
)  # fmt: skip


def snapshot(jobs: int, nodes: int) -> SlurmSnapshot:
    """Jobs fill the nodes one after the other, to the last GPU; the rest waits."""
    rng = np.random.default_rng(1)
    free = [GPUS_PER_NODE] * nodes
    made, node = [], 0
    for number, gpus in enumerate(rng.choice(SIZES, jobs).tolist(), 1):
        node += node < nodes and not free[node]
        gpus = min(gpus, free[node]) if node < nodes else gpus
        submit = NOW - int(rng.integers(1, 90_000))
        job = replace(WAITING, id=str(number), raw_id=number, gpus=gpus, cpus=4 * gpus, submit_time=submit)
        if node < nodes:
            free[node] -= gpus
            share = NodeShare(f"node{node:04d}", gpus, 4 * gpus, 2000 * gpus)
            job = replace(job, state="RUNNING", priority=1, start_time=job.submit_time + 60, shares=(share,))
        made.append(job)
    return SlurmSnapshot(NOW, tuple(made), tuple(replace(NODE, name=f"node{row:04d}") for row in range(nodes)))


def milliseconds(
    call: Callable[[], object], repeat: int, clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    found = []
    for _ in range(repeat):
        began = clock()
        call()
        found.append(1e3 * (clock() - began))
    return {"median_ms": round(statistics.median(found), 2), "max_ms": round(max(found), 2)}


class Centre:
    def __init__(self, folder: Path, jobs: int, nodes: int) -> None:
        self.slurm = snapshot(jobs, nodes)
        config = Config()
        self.config = replace(config, paths=replace(config.paths, control=folder))
        self.journal = Journal(folder)
        self.ledger = Ledger(self.journal, Scope.of(self.config))
        self.observer = Observer(self.config, self.ledger)
        self.publisher = Publisher(self.journal.path)
        self.ledger.apply(self.slurm)
        for row in self.ledger.jobs.values():
            row.held = True

    def cycle(self) -> None:
        managed = self.ledger.apply(self.slurm)
        seen = self.observer.observe(self.slurm, managed, {})
        plan = decide(seen, self.config.policy)
        about = {"cluster": "bench", "mode": "exact", "alarms": []}
        rows: Mapping[str, Any] = dict(self.ledger.jobs)
        self.publisher.publish(Publication(about, self.slurm, seen, plan, rows, {}, {}, {}, (), self.config))

    def answer(self) -> Mapping[str, Any]:
        return self.publisher.answer({"op": "status"}, ME)

    def first_screen(self) -> Mapping[str, Any]:
        self.publisher.publish(replace(self.publisher._newest))  # type: ignore[type-var]
        lines, cells = SCREEN
        return self.publisher.answer({"op": "status", "lines": lines, "cells": cells}, ME)

    def first_answer(self) -> Mapping[str, Any]:
        self.publisher.publish(replace(self.publisher._newest))  # type: ignore[type-var]
        return self.answer()


def commands(centre: Centre, folder: Path, repeat: int) -> dict[str, Any]:
    environment = os.environ | {"TIRESIAS_PATHS_RUN": str(folder), "TERM": "xterm-256color"}

    def typed(*words: str) -> None:
        command = [sys.executable, "-m", "tiresias", "status", *words]
        if "--json" in words:
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        else:
            on_terminal(command, environment)

    def first(*words: str) -> None:
        centre.publisher.publish(replace(centre.publisher._newest))  # type: ignore[type-var]
        typed(*words)

    with ControlServer(folder / "control.sock", centre.publisher.answer):
        found = {
            "python_start": command_time(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), repeat),
            "first": command_time(first, repeat),
            "again": command_time(typed, repeat),
            "first_me": command_time(lambda: first("--me"), repeat),
            "again_me": command_time(lambda: typed("--me"), repeat),
        }
        with contextlib.suppress(subprocess.CalledProcessError):  # no answer in time
            found["first_json"] = command_time(lambda: first("--json"), min(repeat, 3))
            found["again_json"] = command_time(lambda: typed("--json"), min(repeat, 3))
        return found


def on_terminal(command: list[str], environment: Mapping[str, str]) -> None:
    """Run a command on a terminal of SCREEN, which is read until the command ends."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *SCREEN, 0, 0))
    process = subprocess.Popen(command, env=environment, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    text = b""
    with contextlib.suppress(OSError), os.fdopen(master, "rb", buffering=0) as terminal:  # EIO: the command has ended
        while data := terminal.read(65536):
            text += data
    if process.wait() or b"GPUs" not in text:
        raise RuntimeError(f"{command}: {text.decode()[-500:]}")


def command_time(call: Callable[[], object], repeat: int) -> dict[str, Any]:
    """By the clock, and on a processor: the command's own time, and that of the server's process meanwhile."""

    def processor(processes: int) -> float:
        used = resource.getrusage(processes)
        return used.ru_utime + used.ru_stime

    found: dict[str, list[float]] = {"clock": [], "command": [], "server": []}
    for _ in range(repeat):
        before = time.perf_counter(), processor(resource.RUSAGE_CHILDREN), processor(resource.RUSAGE_SELF)
        call()
        after = time.perf_counter(), processor(resource.RUSAGE_CHILDREN), processor(resource.RUSAGE_SELF)
        for values, one, other in zip(found.values(), after, before, strict=True):
            values.append(1e3 * (one - other))
    return {
        name: {
            "median_ms": round(statistics.median(each), 1),
            "min_ms": round(min(each), 1),
            "max_ms": round(max(each), 1),
        }
        for name, each in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=2_000)
    parser.add_argument("--repeat", type=int, default=20)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        centre = Centre(Path(folder), args.jobs, args.nodes)
        result = {
            "jobs": args.jobs,
            "nodes": args.nodes,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "running": sum(job.state == "RUNNING" for job in centre.slurm.jobs),
            "cycle": milliseconds(centre.cycle, args.repeat),
            "screen": milliseconds(lambda: json.dumps(centre.first_screen()).encode(), args.repeat),
            "screen_bytes": len(json.dumps(centre.first_screen()).encode()),
            "answer": milliseconds(lambda: json.dumps(centre.first_answer()).encode(), min(args.repeat, 3)),
            "make": milliseconds(centre.first_answer, min(args.repeat, 3)),
            "bytes": len(json.dumps(centre.answer()).encode()),
            "command": commands(centre, Path(folder), args.repeat),
        }
        centre.journal.close()
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
