"""Train a network that places jobs, in the simulator.

First it imitates a placement style, then it learns from how much the jobs that it places slow each other. Each episode is one
workload. Every ten episodes it is validated on twelve further workloads, and FILE has the best weights so far. FILE.checkpoint, in
the same folder, is written after each episode: --resume goes on from there, as if there had been no interruption. The same options
give the same weights on the same machine. One core is used. PyTorch is needed: pip install 'slurm-tiresias[torch]'.

examples:
  tiresias placement train --topology fat_tree:4 --out placement.npz
  tiresias placement train --topology topology.conf --servers dgx --trace jobs.csv.gz --episodes 500 --out placement.npz --resume
  tiresias placement train --topology vl2:4,4,4 --agents single --arrivals uniform --out single.npz --plot curves
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from tiresias.errors import UsageError
from tiresias.scheduler.place.learned.placement_agents import TASKS
from tiresias.scheduler.place.learned.weights_file import written
from tiresias.simulator.commands import argument_types as types
from tiresias.simulator.commands import placement_arguments
from tiresias.simulator.commands.placement_arguments import PlacementProblem
from tiresias.simulator.experiments.experiment import progress_display
from tiresias.simulator.learning.training_plan import AGENTS, PARTITION, SEARCH, TrainingPlan
from tiresias.simulator.learning.workload_seeds import MOST_EPISODES
from tiresias.simulator.placement_environment import PlacementEnvironment
from tiresias.simulator.simulated_placement import BY_SKEW, STYLES
from tiresias.simulator.views import output, simulation_plots

if TYPE_CHECKING:
    from tiresias.simulator.learning.placement_training import PlacementTraining

TEACHERS = (SEARCH, *(style for style in STYLES if style not in (BY_SKEW, "learned")))
_MOST_LAYERS = 8
_MOST_SEED = 1_000_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    default = TrainingPlan()
    placement_arguments.configure(parser)
    group = parser.add_argument_group("training")
    group.add_argument(
        "--agents", type=types.one_of("--agents", tuple(AGENTS)), default=PARTITION, metavar="HOW",
        help="partition: one for each leaf switch; single: one for the whole cluster (default: %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--tasks", type=types.one_of("--tasks", TASKS), default=default.tasks, metavar="WHAT",
        help="what an agent places at once: gpu, or server for as many GPUs of the job as a server can hold (default: %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--episodes", type=types.whole_number("--episodes"), default=default.episodes, metavar="N",
        help="those of imitation included (default: %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--demonstrations", type=types.count("--demonstrations"), metavar="N",
        help=f"the first N episodes imitate the --teacher (default: {default.demonstrations}, or all if there are fewer)",
    )  # fmt: skip
    group.add_argument(
        "--teacher", type=types.one_of("--teacher", TEACHERS), default=default.teacher, metavar="STYLE",
        help=f"{', '.join(TEACHERS)} (default: %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--layers", type=types.whole_number("--layers"), default=default.layers, metavar="N",
        help="convolutions of the graph of servers (default: %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--seed", type=types.count("--seed"), default=default.seed, metavar="S", help="default: %(default)s"
    )
    group.add_argument("--out", type=Path, required=True, metavar="FILE", help="the weights")
    group.add_argument("--resume", action="store_true", help="go on from FILE.checkpoint, if it is there")
    group.add_argument("--plot", type=Path, metavar="DIR", help="the learning curves, as PNG and SVG; needs matplotlib")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    _check(args)
    problem = placement_arguments.problem(args, held_back=False)
    training = _begun(args, problem)
    before = len(training.curve)
    _train(training, args.out)
    if args.plot:
        output.write(simulation_plots.learning(args.plot, _curves(training)))
    _report(training, args.out, before)
    return 0


def _check(args: argparse.Namespace) -> None:
    if find_spec("torch") is None:
        raise UsageError("training needs PyTorch; install it with: pip install 'slurm-tiresias[torch]'")
    if args.demonstrations is None:
        args.demonstrations = min(TrainingPlan().demonstrations, args.episodes)
    limits = {"layers": _MOST_LAYERS, "episodes": MOST_EPISODES, "seed": _MOST_SEED, "demonstrations": args.episodes}
    for name, most in limits.items():
        if getattr(args, name) > most:
            raise UsageError(f"--{name} is {getattr(args, name)}: {most:,} is the most")
    output.check([args.out])
    if args.plot:
        simulation_plots.check(args.plot)


def _begun(args: argparse.Namespace, problem: PlacementProblem) -> PlacementTraining:
    """Return the training, at its beginning or where its checkpoint left it."""
    import torch

    from tiresias.simulator.learning import placement_training, training_checkpoint

    torch.set_num_threads(1)  # the order of sums, and so the weights, would depend on it
    environment = PlacementEnvironment(problem.cluster, problem.workload.trace, contention=problem.contention)
    training = placement_training.PlacementTraining(environment, _plan(args, problem))
    checkpoint = training_checkpoint.checkpoint_file(args.out)
    if args.resume and checkpoint.exists():
        training_checkpoint.restore(training, checkpoint)
        _check_episodes(training, checkpoint)
    elif checkpoint.exists():
        raise UsageError(f"{checkpoint}: a training to go on with; give --resume, or remove the file to begin again")
    return training


def _check_episodes(training: PlacementTraining, checkpoint: Path) -> None:
    done, planned = len(training.curve), training.plan.episodes
    if done > planned:
        raise UsageError(f"{checkpoint}: has {done} episodes already; give --episodes {done} or more, not {planned}")


def _plan(args: argparse.Namespace, problem: PlacementProblem) -> TrainingPlan:
    return TrainingPlan(
        args.episodes, args.seed, args.agents, args.tasks, args.teacher, args.demonstrations, args.layers,
        topology=args.topology, cluster=problem.fingerprint, arrivals=problem.arrivals, jobs=args.jobs, load=args.load,
    )  # fmt: skip


def _train(training: PlacementTraining, out: Path) -> None:
    """Play all episodes that are left. After each the checkpoint and the best weights are written."""
    from tiresias.simulator.learning import training_checkpoint

    with progress_display() as display:
        task = display.add_task("episodes", total=training.plan.episodes, completed=len(training.curve))
        while not training.is_done:
            training.advance()
            files = {out: written(training.best)} if training.best else {}
            output.write({**files, training_checkpoint.checkpoint_file(out): training_checkpoint.packed(training)})
            display.update(task, completed=len(training.curve), refresh=True)


def _curves(training: PlacementTraining) -> dict[str, dict[str, simulation_plots.Curve]]:
    """Return the curves by the name of their axis and their own name."""
    jct = {"training": training.curve_of("jct"), "validation": training.curve_of("validation")}
    jct[training.plan.teacher] = [1, len(training.curve)], [training.reference] * 2
    return {
        "mean JCT, s": jct,
        "mean cost of a job": {"cost": training.curve_of("cost")},
        "entropy": {"entropy": training.curve_of("entropy")},
    }


def _report(training: PlacementTraining, out: Path, before: int) -> None:
    assert training.best, "the last episode is validated"
    best, plan = training.best.training, training.plan
    console = Console(highlight=False, markup=False)
    played = len(training.curve) - before
    console.print(f"{played} episodes{f' after {before} of before' if before else ''}, seed {plan.seed}.")
    console.print(
        f"Mean JCT of the validation workloads: {best['validation_jct']:,.0f} s after episode {best['trained_episodes']}; "
        f"by {plan.teacher} {training.reference:,.0f} s. The first scores: {best['start']}."
    )
    console.print(f"The weights are in {out}. tiresias placement evaluate compares them with the other styles.")
