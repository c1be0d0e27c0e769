"""Makes the manual's figures with the simulator: python docs/figures.py FOLDER

First it runs the commands of docs/explanation/algorithm.md in FOLDER and compares their output; then it draws the figures that
no command draws.
The same simulator gives the same files. Needs matplotlib.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import console
import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.distribution import Distribution
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.experiments.experiment import Experiment, Setup, run_experiments
from tiresias.simulator.generators import paper_testbed
from tiresias.simulator.reporting import Reporting
from tiresias.simulator.simulated_placement import SimulatedPlacement
from tiresias.simulator.simulation_rules import Cost
from tiresias.simulator.trace import Trace

PAGE = Path(__file__).with_name("explanation") / "algorithm.md"
TESTBED = ClusterSize(15, 4)
MEAN_COST = Cost(resume=62.0)  # seconds, section 5.2.4 of the paper
QUANTA = (800.0, 3200.0, 12800.0)  # GPU-seconds
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the jobs, which report their progress
SEEDS = (1, 2, 3)  # of each generated workload
JOBS = 480
TAILS: dict[str, dict[str, float]] = {
    "as in section 5.1": {},
    "with heavier tails": {"short_shape": 3.0, "long_shape": 0.75},
}
SHOWN = ("skew", "consolidate", "spread", "random")  # styles of placement


def make(folder: Path, jobs: int = JOBS) -> None:
    """jobs: of each simulation whose result no page quotes; fewer of them make other figures sooner."""
    folder.mkdir(parents=True, exist_ok=True)
    for block in console.blocks(PAGE):
        for step in block.steps:
            _run(step, folder)
    for name, figure in {
        "index": gittins_index(),
        "placement": placement(jobs),
        "reports": reports(jobs),
    }.items():
        with matplotlib.rc_context({"svg.hashsalt": name}):
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


def _run(step: console.Step, folder: Path) -> None:
    """With the programs that belong to this Python."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "80"}
    done = subprocess.run(
        ["sh", "-c", step.command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode or not step.is_answered_by(done.stdout):
        raise SystemExit(f"{PAGE.name}, line {step.line}: {step.command} answers\n{done.stdout}{done.stderr}")


def gittins_index() -> Figure:
    """Of the paper's workload, for pieces of service of different lengths."""
    trace = paper_testbed(seed=1)
    known, attained = Distribution(trace.gpus * trace.duration), np.geomspace(10.0, 2e4, 400)
    figure, axes = _figure("How promising a job is that has had so much service")
    for quantum in QUANTA:
        axes.plot(attained, known.within(attained, np.full_like(attained, quantum)), label=f"D = {quantum:,.0f} GPU-s")
    axes.set(xscale="log", yscale="log", xlabel="attained service, GPU-seconds", ylabel="completions per GPU-second")
    axes.legend()
    return figure


def placement(jobs: int) -> Figure:
    """Mean JCT of the paper's workload by how jobs are put on nodes."""
    found = run_experiments(
        {style: _placed(style, jobs) for style in SHOWN}, lambda experiment, run: run.summary["mean_jct"]
    )
    figure, axes = _figure("Nodes of jobs")
    axes.bar(list(found), list(found.values()))
    axes.set_ylabel("mean JCT, seconds")
    return figure


def _placed(style: str, jobs: int) -> Experiment:
    placement = SimulatedPlacement.named(style)
    trace = paper_testbed(jobs, seed=1)
    setup = Setup("", trace, TESTBED, PolicyConfig.paper(), MEAN_COST, by_node=True, placement=placement)
    return setup.experiment("las")


def reports(jobs: int) -> Figure:
    """Mean JCT of the paper's workload against the share of reporting jobs, and that of srsf, for which all durations are known."""
    cases = [("adaptive", share) for share in SHARES] + [("srsf", 0.0)]
    experiments = {
        f"{tails} {seed} {case}": _reporting(*case, paper_testbed(jobs, seed=seed, **shapes))
        for tails, shapes in TAILS.items()
        for seed in SEEDS
        for case in cases
    }
    found = run_experiments(experiments, lambda experiment, run: run.summary["mean_jct"])
    figure, axes = _figure("Progress reports")
    for color, tails in zip(("C0", "C1"), TAILS, strict=True):
        *adaptive, oracle = (np.mean([found[f"{tails} {seed} {case}"] for seed in SEEDS]) for case in cases)
        axes.plot(SHARES, adaptive, marker="o", color=color, label=f"adaptive, {tails}")
        axes.axhline(oracle, linestyle="--", color=color, label=f"srsf, {tails}")
    axes.set(xlabel="share of reporting jobs", ylabel="mean JCT, seconds", xticks=SHARES, ylim=(0.0, None))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.legend()
    return figure


def _reporting(policy: str, share: float, trace: Trace) -> Experiment:
    setup = Setup("", trace, TESTBED, PolicyConfig.paper(), MEAN_COST, reporting=Reporting(share))
    return setup.experiment(policy)


def _figure(title: str) -> tuple[Figure, matplotlib.axes.Axes]:
    figure = Figure(figsize=(8, 4), layout="constrained")
    figure.suptitle(title)
    axes = figure.subplots()
    axes.grid(alpha=0.3)
    return figure, axes


if __name__ == "__main__":
    make(Path(sys.argv[1]))
