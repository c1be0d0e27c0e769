"""Replay a trace through the scheduling core on a simulated cluster and compare policies.

Exact times, event by event, no randomness. Only the number of GPUs counts: a job runs equally fast on all nodes, and preemption
costs nothing, unless --placement, --topology, --interference or --preemption-cost is given. The trace is a CSV file, gzip or not,
with the header job_id,submit_time,num_gpus,duration[,user,vc,model,status,total_steps,steps,min_gpus,max_gpus,gpu_step,memory],
times in seconds, memory in GB, or one of the other formats below. Jobs with min_gpus or max_gpus are elastic.

Policies: las (Tiresias-L), adaptive (learns from completed jobs how soon others end), gittins (las that learns so),
gittins_known (has the distribution of all services in advance, as in the paper), continuous_las and continuous_gittins (without
queues), fifo (strict order), best_effort (FIFO with overtaking), sf (fewest GPUs first), time_sharing (round robin); srtf and
srsf have every duration in advance. They are simulated in parallel, a process each, and compared to the first one.

examples:
  tiresias simulate trace.csv --policy las,fifo --nodes 15 --gpus-per-node 4
  tiresias simulate trace.csv.gz --policy las --nodes 250 --gpus-per-node 8 --threshold 3600,36000 --json out.json
  tiresias simulate trace.csv --policy las,srsf --nodes 15 --gpus-per-node 4 --preemption-cost 10,52 --plot plots
  tiresias simulate trace.csv --policy las,fifo --nodes 15 --gpus-per-node 4 --mtbf 2e6 --checkpoint-interval 1800
  tiresias simulate trace.csv --policy adaptive,srsf --nodes 15 --gpus-per-node 4 --reporting 0.5 --liars 0.1
  tiresias simulate elastic.csv --preset optimus,drf,tetris,las --nodes 15 --gpus-per-node 4
  tiresias simulate may.csv --history april.csv --policy adaptive --nodes 15 --gpus-per-node 4
  tiresias simulate trace.csv --policy las --nodes 12 --gpus-per-node 8 --nodes-per-leaf 4 --admission virtual_clusters \\
    --virtual-clusters vcs.toml --by-virtual-cluster
  tiresias simulate trace.csv --policy fifo --topology fat_tree:8 --servers mixed --interference --placement consolidate
  tiresias simulate trace.csv --policy las --nodes 15 --gpus-per-node 4 --node-memory 256 --job-memory 48 --remote-memory 0.5
  tiresias simulate trace.csv --sensitivity threshold --nodes 250 --gpus-per-node 8
  tiresias simulate --reproduce-paper --traces DIR --json paper.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tiresias.errors import UsageError
from tiresias.simulator.commands import arguments, memory_arguments, preset_arguments
from tiresias.simulator.commands.arguments import configure as configure
from tiresias.simulator.experiments import reproduce, sensitivity
from tiresias.simulator.experiments.experiment import Experiment, Run, Setup, run_experiments, whole, without_timeline
from tiresias.simulator.outcome_metrics import Summary, by_owner, by_virtual_cluster
from tiresias.simulator.simulated_owners import owners_of
from tiresias.simulator.views import output, paper_tables, sensitivity_tables, simulation_plots
from tiresias.simulator.views import simulate as view
from tiresias.simulator.views.wide_tables import in_parts


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    output.check(file for file in (args.json, args.jobs_out, args.series) if file)
    if args.reproduce_paper:
        return _reproduce(args)
    if args.plot:
        simulation_plots.check(args.plot)
    return _sensitivity(args) if args.sensitivity else _compare(args)


def _compare(args: argparse.Namespace) -> int:
    if args.preset:
        _refuse(args, "--preset", "policy")
        args.admission = preset_arguments.tenant_rule(args.preset, args.admission)
        setup = _setup(args)
        experiments = preset_arguments.experiments(args.preset, setup)
    else:
        policies: tuple[str, ...] = arguments.needed(args.policy, "--policy P")
        setup = _setup(args)
        experiments = {name: setup.experiment(name) for name in policies}
    experiments = memory_arguments.with_remote(args, experiments)
    runs = run_experiments(experiments, whole if args.plot or args.series else without_timeline)
    output.write(_files(args, setup, runs, _owners(args, experiments)))
    tables = view.tables(_summaries(runs))
    if args.by_virtual_cluster:
        tables.append(view.virtual_cluster_table(_by_virtual_cluster(setup, runs)))
    if kind := _owners(args, experiments):
        tables.append(view.owner_table(kind, _by_owner(kind, setup, runs)))
    _print(" ".join([view.headline(setup), *preset_arguments.intervals_in_words(args.preset or {}, setup)]), *tables)
    return 0


def _sensitivity(args: argparse.Namespace) -> int:
    _refuse(args, "--sensitivity", "jobs_out", "series", "preset")
    setup = _setup(args)
    found = sensitivity.measure(setup, args.sensitivity, args.policy or sensitivity.POLICIES, args.threshold)
    files: dict[Path, output.Content] = {}
    if args.json:
        files[args.json] = view.as_text({**view.setup_json(setup), **sensitivity_tables.as_json(found)})
    if args.plot:
        files.update(simulation_plots.sensitivity(args.plot, found.knob, found.summaries))
    output.write(files)
    _print(view.headline(setup), *sensitivity_tables.tables(found))
    return 0


def _reproduce(args: argparse.Namespace) -> int:
    _refuse(
        args,
        "--reproduce-paper",
        "trace",
        "policy",
        "preset",
        "nodes",
        "gpus_per_node",
        "topology",
        "jobs_out",
        "series",
        "plot",
    )
    found = reproduce.reproduce(args.traces, args.in_queue_order)
    if args.json:
        output.write({args.json: view.as_text(paper_tables.as_json(found))})
    _print(
        f"The paper's results and the simulated ones; the trace: {found.trace}.",
        *paper_tables.tables(found),
        *paper_tables.notes(found),
    )
    return 0


def _refuse(args: argparse.Namespace, experiment: str, *options: str) -> None:
    for option in options:
        if getattr(args, option) is not None:
            name = "TRACE" if option == "trace" else f"--{option.replace('_', '-')}"
            raise UsageError(f"{experiment}: {name} has no meaning with it; leave it out")


def _setup(args: argparse.Namespace) -> Setup:
    setup = arguments.setup(args)
    for line in view.dropped_lines(setup.trace):
        print(f"{setup.name}: {line}", file=sys.stderr)
    return setup


def _owners(args: argparse.Namespace, experiments: Mapping[str, Experiment]) -> str:
    """Return between which owners the results are compared; "": none."""
    kinds = (each.rules.config.fairness for each in experiments.values())
    return args.owners or next((kind for kind in kinds if kind != "none"), "")


def _by_owner(kind: str, setup: Setup, runs: Mapping[str, Run]) -> dict[str, Summary]:
    owner = owners_of(setup.trace, kind)
    return {name: by_owner(owner, setup.trace, each.outcome) for name, each in runs.items()}


def _files(args: argparse.Namespace, setup: Setup, runs: Mapping[str, Run], owners: str) -> dict[Path, output.Content]:
    outcomes = {name: each.outcome for name, each in runs.items()}
    files: dict[Path, output.Content] = {}
    if args.json:
        clusters = {"virtual_clusters": _by_virtual_cluster(setup, runs)} if args.by_virtual_cluster else {}
        of_owners = {owners: _by_owner(owners, setup, runs)} if owners else {}
        files[args.json] = view.as_text({**view.comparison(setup, _summaries(runs)), **clusters, **of_owners})
    if args.jobs_out:
        files[args.jobs_out] = view.job_lines(setup.trace, outcomes)
    if args.series:
        files[args.series] = view.series_lines(outcomes)
    if args.plot:
        files.update(simulation_plots.comparison(args.plot, setup, outcomes))
    return files


def _by_virtual_cluster(setup: Setup, runs: Mapping[str, Run]) -> dict[str, dict[str, Summary]]:
    return {name: by_virtual_cluster(setup.trace, each.outcome) for name, each in runs.items()}


def _summaries(runs: Mapping[str, Run]) -> dict[str, dict[str, float]]:
    return {name: each.summary for name, each in runs.items()}


def _print(*parts: object) -> None:
    console = Console(highlight=False, markup=False, emoji=False)
    for part in parts:
        for shown in in_parts(part, console.width) if isinstance(part, Table) else (part,):
            console.print(shown)
            if isinstance(part, Table):
                console.print()
