"""What the cluster's own jobs would have had under Tiresias: a replay of its accounting, before anything is installed.

Job completion times by size, user and partition, preemptions, GPUs used, and the share of jobs and users that lose, under a
policy like the present one and under others. Where accounting contains the end of each job, the replay of the present policy is
compared with it, which shows how accurate replays are for the site.

Without TRACE the accounting of the local cluster is read (sacct, scontrol): only what this user may see of it. With
--from-shadow the jobs are those that a controller in mode shadow has seen, without slurmdbd, and the replays are followed by
the cases in which it would have acted otherwise than Slurm, and for how long. For root and the controller's user.

With --virtual-clusters the policies are replayed in virtual clusters: accounts, QOS or partitions that own cells of the topology.
The waiting time of each virtual cluster is shown as it was under Slurm and as it would have been.

examples:
  tiresias whatif                                            the last 90 days of this cluster
  tiresias whatif --since 2026-09-01 --partition gpu --html report.html
  tiresias whatif dump.txt --nodes 30 --gpus-per-node 8      of sacct, or any trace of tiresias simulate
  tiresias whatif --from-shadow --html report.html           of what was recorded since the controller was installed
  tiresias whatif --virtual-clusters vcs.toml --admission virtual_clusters,private_clusters,gpu_quotas --policy las

The dump is made on the cluster, and may be looked at before it is passed on, by
  sacct -P --allusers --duplicates -S now-90days -E now -s BF,CA,CD,DL,F,NF,OOM,PD,PR,R,RQ,RV,S,TO \\
    --format=JobID,User,Account,QOS,Partition,JobName,Submit,Start,End \\
    --format=ElapsedRaw,State,AllocTRES,ReqTRES > dump.txt
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from tiresias.errors import UsageError
from tiresias.scheduler.config import PolicyConfig
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.commands import arguments, fairness_arguments, history_arguments, tenant_arguments
from tiresias.simulator.experiments.experiment import Setup
from tiresias.simulator.experiments.policy_comparison import compare_policies
from tiresias.simulator.formats import shadow_journal
from tiresias.simulator.trace import replayed
from tiresias.simulator.views import output
from tiresias.simulator.views import simulate as simulate_view
from tiresias.simulator.views import whatif as view
from tiresias.simulator.views.conclusion import conclusion
from tiresias.simulator.views.wide_tables import in_parts

DEFAULT_CONFIG = PolicyConfig.paper(cluster="production")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    history_arguments.configure(parser)
    parser.add_argument(
        "--from-shadow",
        type=Path,
        nargs="?",
        const=shadow_journal.FOLDER,
        metavar="STATE_DIR",
        help=f"in place of TRACE: paths.state of a controller in mode shadow (default: {shadow_journal.FOLDER})",
    )
    arguments.configure_threshold(parser, DEFAULT_CONFIG)
    parser.add_argument(
        "--present",
        choices=("best_effort", "fifo"),
        default="best_effort",
        help="the present policy: a job that does not fit is overtaken, as with backfill, or blocks (default: %(default)s)",
    )
    arguments.configure_alternatives(parser)
    fairness_arguments.configure_shares(parser.add_argument_group("users and accounts"))
    tenant_arguments.configure_history(parser.add_argument_group("virtual clusters"))
    parser.add_argument("--json", type=Path, metavar="FILE", help="all the numbers")
    parser.add_argument("--html", type=Path, metavar="FILE", help="one file with tables and plots, to be passed around")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    output.check(file for file in (args.json, args.html) if file)
    setup, seen = _asked(args, replace(DEFAULT_CONFIG, thresholds=args.threshold, fairness=args.fairness))
    setup = replace(setup, shares=fairness_arguments.shares(args))
    setup, shared = tenant_arguments.shared(args, setup)
    found = compare_policies(setup, args.present, args.policy, seen, shared)
    files: dict[Path, output.Content] = {}
    if args.json:
        files[args.json] = simulate_view.as_text(view.as_json(found))
    if args.html:
        files[args.html] = view.as_html(found)
    output.write(files)
    console = Console(highlight=False, markup=False, emoji=False)
    for part in (
        conclusion(found).text,
        simulate_view.headline(setup),
        *simulate_view.dropped_lines(setup.trace),
        *(part for table in view.tables(found) for part in in_parts(table, console.width)),
        *view.words(found),
        *([view.NO_PLOTS] if args.html and not view.has_plots() else []),
    ):
        console.print(part)
    return 0


def _asked(args: argparse.Namespace, config: PolicyConfig) -> tuple[Setup, shadow_journal.ShadowRecord | None]:
    if args.from_shadow is None:
        return history_arguments.setup(args, config, equal_nodes=args.virtual_clusters is not None), None
    if args.trace or args.nodes or args.gpus_per_node or args.partition:
        raise UsageError(
            "--from-shadow cannot be combined with TRACE, --nodes, --gpus-per-node or --partition: all recorded jobs are read"
        )
    if args.virtual_clusters:
        raise UsageError(
            "--virtual-clusters: what mode shadow recorded has no accounts and no nodes; leave --from-shadow out"
        )
    seen, columns = shadow_journal.read(args.from_shadow)
    cluster = ClusterSize(seen.gpus, 1)  # jobs may run anywhere, so single GPUs are equal to nodes
    trace = replayed(args.from_shadow, columns, cluster.gpus)
    return Setup("mode shadow", trace, cluster, config, args.preemption_cost), seen
