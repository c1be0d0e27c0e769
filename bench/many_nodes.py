"""A real slurmctld with as many slurmds as this machine carries, and the controller on it. Prints JSON.

    python bench/many_nodes.py [--nodes 50,200,500] [--probes 20] [--limit 600]

Each node is a slurmd process of its own, with a name and a port (Slurm's multiple-slurmd). For each number of nodes:

up           seconds until slurmctld and all slurmds are ready; memory_mb: of them together
fill         one job for each node, with all its GPUs: seconds of the submission, and from its begin until all of them run
start        seconds from the end of the submission of one job, on free GPUs, until its first line runs, of the probes
cycle        the controller's, of the newest 1000; cpu: shares of a processor in ten seconds with nothing to do

A size begins only while the limit (seconds) is not reached and the machine has memory for it; otherwise `left_out` has the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import time
from typing import Any

from rpc import Site
from scale import GPUS_PER_NODE, STARTED, available, phase, site_of

from tiresias.errors import TiresiasError

NODE_MB = 12  # a slurmd and its share of slurmctld
KEPT_MB = 4000  # left to the machine's other programs
COMMAND = f"date +%s.%N > {STARTED}/$SLURM_JOB_ID; sleep 100000"


def measure(nodes: int, probes: int, backend: str) -> dict[str, Any]:
    before = available()
    with site_of(nodes, backend) as (site, found):
        found |= {"fill": fill(site, nodes), "memory_mb": before - available()}
        return found | {"start": starts(site, probes), **idle(site)}


def fill(site: Site, nodes: int) -> dict[str, Any]:
    began = time.monotonic()
    submitted = site.submit(nodes, GPUS_PER_NODE, COMMAND)
    site.until(lambda: site.count("RUNNING") == nodes, "not all run")
    return {"jobs": nodes, "submitted_in": round(submitted, 1), "all_run_after": round(time.monotonic() - began, 1)}


def starts(site: Site, probes: int) -> dict[str, Any]:
    site.cluster.run(["scancel", "--user=alice"])
    site.until(lambda: site.count("RUNNING,COMPLETING,PENDING") == 0, "the nodes do not become free")
    found = [started(site) for _ in range(probes)]
    return {"probes": probes, "median": round(statistics.median(found), 2), "max": round(max(found), 2)}


def started(site: Site) -> float:
    """Seconds from the end of a submission until the first line of the job."""
    folder = site.cluster.shared / "started"
    known = set(folder.iterdir())
    site.submit(1, 1, COMMAND)
    began = time.time()
    site.until(lambda: any(file.read_text() for file in set(folder.iterdir()) - known), "the job does not start")
    return max(min(float(text) for file in set(folder.iterdir()) - known if (text := file.read_text())) - began, 0.0)


def idle(site: Site) -> dict[str, Any]:
    found = phase(site, lambda: time.sleep(10.0))
    return {name: found[name] for name in ("cycle", "cpu", "rss", "slurmctld")}


def left_out(nodes: int, until: float) -> str:
    if time.monotonic() > until:
        return "the limit of time is reached"
    need = KEPT_MB + NODE_MB * nodes
    return f"needs {need} MB of memory, {available()} are available" if available() < need else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="50,200,500", help="numbers of nodes, separated by commas")
    parser.add_argument("--probes", type=int, default=20)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which no size begins")
    parser.add_argument("--backend", choices=["auto", "pyslurm", "commands"], default="auto")
    args = parser.parse_args()
    until, found = time.monotonic() + args.limit, list[dict[str, Any]]()
    for nodes in map(int, args.nodes.split(",")):
        if why := left_out(nodes, until):
            found.append({"nodes": nodes, "left_out": why})
            continue
        try:
            found.append(measure(nodes, args.probes, args.backend))
        except (TiresiasError, subprocess.TimeoutExpired) as error:
            found.append({"nodes": nodes, "failed": str(error)})
    machine = {"machine": platform.machine(), "processors": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    print(json.dumps({**machine, "python": platform.python_version(), "sizes": found}, indent=2))


if __name__ == "__main__":
    main()
