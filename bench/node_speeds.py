"""Mean JCT by placement on nodes of different speeds. Prints JSON.

    python bench/node_speeds.py [--seeds 5] [--jobs 400] [--load 0.7] [--policy fifo]

Sixteen nodes with four GPUs; the logarithms of their speeds vary by `spread`, and `slow` nodes are 1.5 to 2.5 times as slow. Half
of the models are not sensitive, as in PAL's classes of programs. Each seed has its own jobs and speeds. `gain`: part of the mean
JCT of the other style by which that of fastest_nodes is lower, mean over the seeds, with the 95% interval of paired differences.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
from dataclasses import replace

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Floats
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.simulator import ClusterSize, Rules, SimulatedContention, simulate
from tiresias.simulator.contention.simulated_contention import DEFAULT_INTERFERENCE
from tiresias.simulator.models import MODELS
from tiresias.simulator.placement_workloads import PlacementWorkload
from tiresias.simulator.simulated_node_speeds import SimulatedNodeSpeeds
from tiresias.simulator.simulated_placement import SimulatedPlacement
from tiresias.simulator.trace import Trace

CLUSTER = ClusterSize(16, 4, 4)
STYLES = ("consolidate", "skew", "least_interference", "load_balancing", "fastest_nodes")
SETTINGS = {"equal": (0.0, 0), "5%": (0.05, 0), "20%": (0.2, 0), "8% and 2 slow": (0.08, 2), "8% and 4 slow": (0.08, 4)}
INSENSITIVE = dict.fromkeys(sorted(MODELS)[::2], 0.0)
T_95 = {2: 4.303, 3: 3.182, 4: 2.776, 9: 2.262}  # by degrees of freedom


def speeds(spread: float, slow: int, seed: int) -> SimulatedNodeSpeeds:
    """Return nodes at random."""
    rng = np.random.default_rng(seed)
    found = np.exp(rng.normal(0.0, spread, CLUSTER.nodes))
    found[rng.choice(CLUSTER.nodes, slow, replace=False)] = rng.uniform(1.5, 2.5, slow)
    return SimulatedNodeSpeeds(found / np.median(found), INSENSITIVE)


def mean_jct(trace: Trace, style: str, nodes: SimulatedNodeSpeeds, policy: str, shares_nodes: bool) -> float:
    """Return the mean JCT, seconds. shares_nodes: jobs on one node slow each other, too."""
    placement = replace(SimulatedPlacement.named(style), speeds=nodes)
    contention = SimulatedContention(DEFAULT_INTERFERENCE) if shares_nodes else None
    rules = Rules(POLICIES[policy], PolicyConfig(name=policy), by_node=True, placement=placement, contention=contention)
    return float(simulate(trace, CLUSTER, rules).jct.mean())


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
    args = parser.parse_args()
    found = {name: measured(setting, args, shares_nodes=False) for name, setting in SETTINGS.items()}
    found["8% and 2 slow, jobs share nodes"] = measured(SETTINGS["8% and 2 slow"], args, shares_nodes=True)
    print(json.dumps({"python": platform.python_version(), **vars(args), "settings": found}, indent=1))


if __name__ == "__main__":
    main()
