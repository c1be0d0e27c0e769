"""From the end of the leader to the first job that the standby starts, in seconds. Prints JSON.

    python bench/takeover.py [--period 30] [--rounds 3] [--ways ended,killed,frozen,host]

A private cluster with a leader and a standby. All GPUs are taken and jobs wait, held by the controller. Then some running jobs are
cancelled and the leader is gone:

ended    by SIGTERM: it hands over
killed   by SIGKILL, on the standby's host: detected through the kernel
frozen   by SIGSTOP: detected by its expired lease, after 1.5 periods; later it resumes
host     by SIGKILL, with a lease that names another host: not detected through the kernel

lead     until the standby leads
start    until the first of the waiting jobs runs
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fail_open import FREED, Site, children, signal_all, until

from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec

SIGNALS = {"ended": signal.SIGTERM, "killed": signal.SIGKILL, "frozen": signal.SIGSTOP, "host": signal.SIGKILL}
WAITING = 8
LEASE = "lib/bench/leader/lease"  # in the cluster's folder


def strike(leader: subprocess.Popen[Any], way: str, lease: Path) -> None:
    """The leader itself alone: its back end's worker process ends with it, or is left running, as after a real failure."""
    [own] = children(leader.pid)[:1]
    os.kill(own, SIGNALS[way])
    if way == "host":
        changed = lease.with_name("lease.other")
        changed.write_text(json.dumps(json.loads(lease.read_text()) | {"boot": "another host's"}))
        changed.replace(lease)


def one_round(site: Site, way: str) -> dict[str, float]:
    controllers = site.controllers()
    try:
        running, waiting = site.fill(WAITING)
        led = site.log().count("leading, in epoch")
        strike(controllers[0], way, site.cluster.folder / LEASE)
        gone = time.monotonic()
        site.cluster.run(["scancel", *running[:FREED]], user="alice")
        until(lambda: site.log().count("leading, in epoch") > led, "no controller takes over")
        lead = time.monotonic() - gone
        until(lambda: site.started(waiting), "the standby starts nothing")
        return {"lead": round(lead, 2), "start": round(time.monotonic() - gone, 2)}
    finally:
        signal_all(controllers, signal.SIGKILL)
        for one in controllers:
            one.send_signal(signal.SIGCONT)  # nsenter stops with what it has entered
        site.clean()


def summary(rounds: Sequence[dict[str, float]]) -> dict[str, Any]:
    worst = {f"{name}_max": max(one[name] for one in rounds) for name in ("lead", "start")}
    return {"start_median": statistics.median(one["start"] for one in rounds), **worst, "rounds": list(rounds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--period", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", default=",".join(SIGNALS))
    args = parser.parse_args()
    args.after = None
    cluster = Cluster.up(ClusterSpec(name="bench-takeover", nodes=4))
    try:
        site = Site(cluster, args)
        ways = {way: summary([one_round(site, way) for _ in range(args.rounds)]) for way in args.ways.split(",")}
        about = {"period": args.period, "slurm": cluster.slurm_version, "machine": platform.machine()}
        print(json.dumps({"takeover": ways, **about}, indent=1))
    finally:
        cluster.down()


if __name__ == "__main__":
    main()
