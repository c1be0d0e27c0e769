"""List running private clusters.

Example:
  tiresias sandbox status --json
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from tiresias.sandbox.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one object per cluster, in a list")


def run(args: argparse.Namespace) -> int:
    rows = [_row(cluster) for cluster in Cluster.all()]
    if args.json:
        print(json.dumps(rows, indent=2))
    elif not rows:
        print("no cluster is running: `tiresias sandbox up` starts one")
    else:
        print(f"{'NAME':16} {'SUITE':9} {'SLURM':9} {'PYSLURM':7} {'NODES UP':>10} {'JOBS':>6} {'UPTIME':>9}")
        for row in rows:
            print(_line(row))
    return 0


def _row(cluster: Cluster) -> dict[str, Any]:
    jobs = cluster.run(["squeue", "-h", "-o", "%i"], check=False).stdout.split()
    states = cluster.node_states()
    return {
        "name": cluster.spec.name,
        "suite": cluster.spec.suite,
        "slurm_version": cluster.slurm_version,
        "pyslurm": cluster.has_pyslurm,
        "nodes": cluster.spec.nodes,
        "nodes_up": sum(map(_is_up, states)),
        "jobs": len(jobs),
        "uptime_seconds": round(time.time() - cluster.started),
        "folder": str(cluster.folder),
    }


def _line(row: dict[str, Any]) -> str:
    nodes, pyslurm, uptime = (
        f"{row['nodes_up']}/{row['nodes']}",
        "yes" if row["pyslurm"] else "no",
        f"{row['uptime_seconds']} s",
    )
    return f"{row['name']:16} {row['suite']:9} {row['slurm_version']:9} {pyslurm:7} {nodes:>10} {row['jobs']:>6} {uptime:>9}"


def _is_up(state: str) -> bool:
    """Return whether Slurm's state is none of the few states of failed nodes. A star: the node does not answer."""
    return not state.startswith(("down", "drain", "fail", "unknown")) and not state.endswith("*")
