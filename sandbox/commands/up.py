"""Start a private Slurm cluster; returns when every node is idle.

Examples:
  tiresias sandbox up
  tiresias sandbox up --nodes 256 --gpus-per-node 8 --name big
  tiresias sandbox up --suite bookworm --name old --slurm-conf-line KillWait=5
"""

from __future__ import annotations

import argparse
import sys

from tiresias.errors import UsageError
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.rootfs import SUITES
from tiresias.sandbox.slurm_conf import ClusterSpec


def configure(parser: argparse.ArgumentParser) -> None:
    default = ClusterSpec()
    parser.add_argument(
        "--name", default=default.name, help="several clusters may be up at once (default: %(default)s)"
    )
    parser.add_argument(
        "--suite",
        choices=tuple(SUITES),
        default=default.suite,
        help="Debian suite, hence Slurm version (default: %(default)s)",
    )
    parser.add_argument("--nodes", type=int, default=default.nodes, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--gpus-per-node", type=int, default=default.gpus_per_node, metavar="N", help="default: %(default)s"
    )
    parser.add_argument("--gpu-type", default=default.gpu_type, metavar="TYPE", help="name the GPUs' type, e.g. v100")
    parser.add_argument(
        "--shared-gpus",
        default=default.shared_gpus,
        metavar="GRES:N",
        help="also give each GPU to jobs in N parts: shard:4 or mps:100",
    )
    parser.add_argument(
        "--cpus-per-node", type=int, default=default.cpus_per_node, metavar="N", help="default: %(default)s"
    )
    parser.add_argument(
        "--sockets-per-node",
        type=int,
        default=default.sockets_per_node,
        metavar="N",
        help="each with its share of the CPUs and GPUs (default: %(default)s)",
    )
    parser.add_argument(
        "--nodes-per-rack",
        type=int,
        default=default.nodes_per_rack,
        metavar="N",
        help="features rack1, rack2, ... (default: %(default)s)",
    )
    parser.add_argument(
        "--scheduler", choices=("backfill", "builtin"), default=default.scheduler, help="default: %(default)s"
    )
    parser.add_argument("--accounting", action="store_true", help="slurmdbd and MariaDB, with accounts and an Operator")
    parser.add_argument(
        "--memory-limits",
        action="store_true",
        help="task/cgroup limits memory and swap of jobs; needs root and memory cgroups of version 1",
    )
    parser.add_argument("--no-hooks", dest="hooks", action="store_false", help="no job_submit, prolog and epilog hooks")
    parser.add_argument(
        "--slurm-conf-line",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="settings",
        help="replaces or adds a line; may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    options = {**vars(args), "settings": dict(map(_key_value, args.settings))}
    cluster = Cluster.up(
        ClusterSpec(**options), report=lambda line: print(f"sandbox: {line}", file=sys.stderr, flush=True)
    )
    back_end = "with pyslurm" if cluster.has_pyslurm else "without pyslurm"
    print(
        f"{args.name}: Slurm {cluster.slurm_version} {back_end}, {args.nodes} nodes x {args.gpus_per_node} GPUs, all idle"
    )
    return 0


def _key_value(line: str) -> tuple[str, str]:
    key, equals, value = line.partition("=")
    if not equals or not key.strip() or "\n" in line:
        raise UsageError(f"--slurm-conf-line {line!r}: write KEY=VALUE")
    return key.strip(), value.strip()
