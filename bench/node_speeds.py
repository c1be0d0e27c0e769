"""Mean JCT by placement on nodes of different speeds. Prints JSON.

    python bench/node_speeds.py [--seeds 5] [--jobs 400] [--load 0.7] [--policy fifo] [--learned]

Sixteen nodes with four GPUs; the logarithms of their speeds vary by `spread`, and `slow` nodes are 1.5 to 2.5 times as slow. Half
of the models are not sensitive, as in PAL's classes of programs. Each seed has its own jobs and speeds. `gain`: part of the mean
JCT of the other style by which that of fastest_nodes is lower, mean over the seeds, with the 95% interval of paired differences.

--learned: fastest_nodes with speeds and sensitivities that the controller's estimator learned. Its samples are the newest runs of
another workload, which `consolidate` placed on the same nodes; the logarithms of the measured step times have normal noise.
`used`: part of the seeds in which the estimator used the speeds; `slowness_error`: mean error of the logarithm of the slowness of
nodes, in these seeds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import platform
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Floats
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.simulator import ClusterSize, Rules, SimulatedContention, simulate
from tiresias.simulator.contention.simulated_contention import DEFAULT_INTERFERENCE
from tiresias.simulator.learned_simulated_speeds import LearnedSimulatedSpeeds
from tiresias.simulator.models import MODELS
from tiresias.simulator.placement_workloads import PlacementWorkload
from tiresias.simulator.simulated_node_speeds import SimulatedNodeSpeeds
from tiresias.simulator.simulated_placement import SimulatedPlacement
from tiresias.simulator.simulated_speed_samples import learned_speeds, simulated_runs
from tiresias.simulator.trace import Trace

CLUSTER = ClusterSize(16, 4, 4)
STYLES = ("consolidate", "skew", "least_interference", "load_balancing", "fastest_nodes")
SETTINGS = {"equal": (0.0, 0), "5%": (0.05, 0), "20%": (0.2, 0), "8% and 2 slow": (0.08, 2), "8% and 4 slow": (0.08, 4)}
INSENSITIVE = dict.fromkeys(sorted(MODELS)[::2], 0.0)
HISTORIES = (1000, 400)  # newest runs; the controller reads those of the newest 1,000 jobs
NOISES = (0.02, 0.05, 0.2)
T_95 = {2: 4.303, 3: 3.182, 4: 2.776, 9: 2.262}  # by degrees of freedom


def speeds(spread: float, slow: int, seed: int) -> SimulatedNodeSpeeds:
    """Return nodes at random."""
    rng = np.random.default_rng(seed)
    found = np.exp(rng.normal(0.0, spread, CLUSTER.nodes))
    found[rng.choice(CLUSTER.nodes, slow, replace=False)] = rng.uniform(1.5, 2.5, slow)
    return SimulatedNodeSpeeds(found / np.median(found), INSENSITIVE)


def mean_jct(
    trace: Trace, style: str, nodes: SimulatedNodeSpeeds, policy: str, shares_nodes: bool,
    own: LearnedSimulatedSpeeds | None = None,
) -> float:  # fmt: skip
    """Return the mean JCT, seconds. shares_nodes: jobs on one node slow each other, too; own: learned speeds."""
    return float(simulate(trace, CLUSTER, rules_of(style, nodes, policy, shares_nodes, own)).jct.mean())


def rules_of(
    style: str, nodes: SimulatedNodeSpeeds, policy: str, shares_nodes: bool = False,
    own: LearnedSimulatedSpeeds | None = None,
) -> Rules:  # fmt: skip
    """Return the rules of a simulation."""
    placement = replace(SimulatedPlacement.named(style), speeds=nodes, learned_speeds=own)
    contention = SimulatedContention(DEFAULT_INTERFERENCE) if shares_nodes else None
    return Rules(POLICIES[policy], PolicyConfig(name=policy), by_node=True, placement=placement, contention=contention)


def learned(setting: tuple[float, int], args: argparse.Namespace) -> dict[str, object]:
    """Return the gains of fastest_nodes over consolidate, with known speeds and with those of each history and noise."""
    found: dict[object, list[Trial]] = {}
    for seed in range(args.seeds):
        nodes = speeds(*setting, seed)
        trace = PlacementWorkload(args.jobs, load=args.load).trace(seed, CLUSTER.gpus)
        before, known = (
            mean_jct(trace, style, nodes, args.policy, False) for style in ("consolidate", "fastest_nodes")
        )
        found.setdefault("known", []).append(Trial(before, known, known))
        earlier = PlacementWorkload(max(HISTORIES), load=args.load).trace(seed + 10_000, CLUSTER.gpus)
        runs = simulated_runs(earlier, CLUSTER, rules_of("consolidate", nodes, args.policy))
        for history, noise in itertools.product(HISTORIES, NOISES):
            own, _ = learned_speeds(runs[-history:], noise, seed, CLUSTER.names)
            jct = mean_jct(trace, "fastest_nodes", nodes, args.policy, False, own)
            error = math.nan if own.slowness is None else float(np.abs(np.log(own.slowness / nodes.slowness)).mean())
            found.setdefault(f"{history} runs, noise {noise:.0%}", []).append(Trial(before, known, jct, error))
    return {str(name): Trial.summary(trials) for name, trials in found.items()}


class Trial(NamedTuple):
    """Mean JCTs of one seed, seconds, and the error of the slowness (nan: nothing was learned)."""

    consolidate: float
    known: float
    own: float
    error: float = 0.0

    @staticmethod
    def summary(trials: Sequence[Trial]) -> dict[str, object]:
        """Return the gains over the other two, and how often speeds were used."""
        other, known, own, error = np.array(trials).T
        used = np.isfinite(error)
        return {
            "gain_over_consolidate": gain(own, other),
            "gain_over_known": gain(own, known),
            "used": round(float(used.mean()), 2),
            "slowness_error": round(float(error[used].mean()), 4) if used.any() else None,
        }


def gain(own: Floats, other: Floats) -> dict[str, float]:
    """Return the mean gain and half of its interval; both of shape (seeds,)."""
    each = 1.0 - own / other
    half = T_95.get(len(each) - 1, 2.0) * each.std(ddof=1) / math.sqrt(len(each))
    return {"mean": round(float(each.mean()), 4), "interval": round(float(half), 4)}


def measured(setting: tuple[float, int], args: argparse.Namespace, shares_nodes: bool) -> dict[str, object]:
    """Return the mean JCT of each style, and the gain over each."""
    jct: dict[str, list[float]] = {style: [] for style in STYLES}
    for seed in range(args.seeds):
        trace = PlacementWorkload(args.jobs, load=args.load).trace(seed, CLUSTER.gpus)
        for style in STYLES:
            jct[style].append(mean_jct(trace, style, speeds(*setting, seed), args.policy, shares_nodes))
    own = np.array(jct["fastest_nodes"])
    return {
        "mean_jct": {style: round(float(np.mean(each))) for style, each in jct.items()},
        "gain": {style: gain(own, np.array(each)) for style, each in jct.items() if style != "fastest_nodes"},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--policy", default="fifo")
    parser.add_argument("--learned", action="store_true", help="compare learned speeds with known ones only")
    args = parser.parse_args()
    if args.learned:
        of_settings = {name: learned(setting, args) for name, setting in SETTINGS.items()}
        print(json.dumps({"python": platform.python_version(), **vars(args), "settings": of_settings}, indent=1))
        return
    found = {name: measured(setting, args, shares_nodes=False) for name, setting in SETTINGS.items()}
    found["8% and 2 slow, jobs share nodes"] = measured(SETTINGS["8% and 2 slow"], args, shares_nodes=True)
    print(json.dumps({"python": platform.python_version(), **vars(args), "settings": found}, indent=1))


if __name__ == "__main__":
    main()
