"""Compare a trained placement with the other styles, on workloads that no training uses.

Each style places the jobs of the same workloads, of the seeds 1 to --seeds, in order of submission and without preemption. The
gain in a workload is 1 - the mean JCT by the network / that by another style. The table has the mean gain over the workloads and
its 95% confidence interval (Student's t over the pairs, one for each seed). The weights are recommended only if the whole interval
is above 0 for each style. With --node-speeds a job is as slow as its slowest server, and the style fastest_nodes is compared, too.
The exit code is 0 in any case.

examples:
  tiresias placement evaluate --topology fat_tree:4 --weights placement.npz
  tiresias placement evaluate --topology fat_tree:4 --weights placement.npz --trace jobs.csv.gz --seeds 20 --json gains.json
  tiresias placement evaluate --topology fat_tree:4 --weights placement.npz --node-speeds speeds.csv
  tiresias placement evaluate --topology fat_tree:6 --weights placement.npz --transfer
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tiresias.errors import UsageError
from tiresias.scheduler.place.learned.weights_file import PlacementWeights, WeightsError, load
from tiresias.simulator.commands import argument_types as types
from tiresias.simulator.commands import node_speed_arguments, placement_arguments
from tiresias.simulator.commands.placement_arguments import PlacementProblem
from tiresias.simulator.experiments.placement_comparison import LEARNED, PlacementComparison, compare_placements
from tiresias.simulator.learning.workload_seeds import MOST_EVALUATION_SEEDS, evaluation_seeds
from tiresias.simulator.views import output
from tiresias.simulator.views.simulate import as_text, filled_table


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--weights", type=Path, required=True, metavar="FILE", help="of tiresias placement train")
    placement_arguments.configure(parser)
    node_speed_arguments.configure(parser.add_argument_group("speeds of the servers"))
    parser.add_argument(
        "--seeds", type=types.whole_number("--seeds"), default=10, metavar="N",
        help="number of workloads, 2 or more (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--transfer", action="store_true",
        help="the weights were trained for another topology: only compare, and do not recommend them",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="the mean JCT of each workload, and the gains")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    output.check([args.json] if args.json else [])
    if not 2 <= args.seeds <= MOST_EVALUATION_SEEDS:
        raise UsageError(f"--seeds is {args.seeds}: an interval needs 2 to {MOST_EVALUATION_SEEDS:,} workloads")
    problem = placement_arguments.problem(args, held_back=True)
    weights, speeds = _weights(args, problem), node_speed_arguments.speeds_of(args, problem.cluster)
    found = compare_placements(
        problem.cluster, problem.workload, problem.contention, weights, evaluation_seeds(args.seeds), speeds
    )
    if args.json:
        output.write({args.json: as_text(_as_json(args, problem, weights, found))})
    console = Console(highlight=False, markup=False)
    for part in (_table(problem, found), "", _verdict(args, found)):
        console.print(part)
    return 0


def _weights(args: argparse.Namespace, problem: PlacementProblem) -> PlacementWeights:
    """Return the weights. Raises WeightsError where they cannot be used for this cluster."""
    found, topology = load(args.weights), problem.cluster.topology()
    if not args.transfer:
        found.check(topology, str(args.weights))
    elif not found.has_partitions(topology):
        raise WeightsError(f"weights {args.weights}: the topology has no level {found.level[:40]}; give another one")
    return found


def _table(problem: PlacementProblem, found: PlacementComparison) -> Table:
    workload = problem.workload
    title = (
        f"{len(found.seeds)} workloads of {workload.jobs:,} jobs, arrivals {problem.arrivals}, load {workload.load:g}: mean JCT, "
        f"and gain of {LEARNED}"
    )
    rows = ((name, [f"{jct.mean():,.0f} s", *_gain_cells(name, found)]) for name, jct in found.mean_jct.items())
    return filled_table(title, ("mean JCT", "gain", "95% interval"), rows)


def _gain_cells(name: str, found: PlacementComparison) -> Iterator[str]:
    if name == LEARNED:
        yield from ("", "")
        return
    gain = found.gains[name]
    yield f"{gain.mean:+.1%}"
    yield f"{gain.low:+.1%} to {gain.high:+.1%}"


def _verdict(args: argparse.Namespace, found: PlacementComparison) -> str:
    if args.transfer:
        return "Not recommended: the weights were trained for another topology."
    if found.not_beaten:
        return f"Not recommended: the gain over {', '.join(found.not_beaten)} is not surely above 0."
    return f"Recommended: {args.weights} wins over each of these styles."


def _as_json(
    args: argparse.Namespace, problem: PlacementProblem, weights: PlacementWeights, found: PlacementComparison
) -> dict[str, object]:
    return {
        "topology": args.topology, "arrivals": problem.arrivals, "load": problem.workload.load, "jobs": problem.workload.jobs,
        "node_speeds": str(args.node_speeds) if args.node_speeds else None, "speed_sensitivity": args.speed_sensitivity or {},
        "seeds": list(found.seeds), "training": dict(weights.training),
        "mean_jct": {name: [round(each, 3) for each in jct.tolist()] for name, jct in found.mean_jct.items()},
        "method": "1 - JCT by learned / JCT by the style, paired by seed; mean and 95% interval by Student's t",
        "gains": {name: {key: round(value, 6) for key, value in gain._asdict().items()} for name, gain in found.gains.items()},
        "recommended": not args.transfer and not found.not_beaten,
    }  # fmt: skip
