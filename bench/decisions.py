"""How many decisions a policy makes, and what one costs, here and in another revision of the code. Prints JSON.

    python bench/decisions.py [--policy adaptive] [--against DIR] [--repeat 5]

storm      `decide` on 10,000 jobs and 2,000 nodes, as in decide.py
steady     the same cluster after all of that was done, when 1% of the running jobs have ended
testbed    a simulation of the paper's workload: 480 jobs, 60 GPUs
philly     a simulation of a load like Philly's: 4,000 jobs, 256 GPUs, load 1.0

DIR is another checkout, such as a git worktree of the revision before a change. Both are measured in turns, each time in a process
of its own, so other work on the machine slows both down. The milliseconds are of processor time, in the shortest of all turns. A
preemption costs 62 s in the simulations.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import decide as cluster

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Snapshot
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.generators import paper_testbed, philly_like
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Cost, Rules
from tiresias.simulator.trace import Trace

HERE = Path(__file__).parents[1]
COST_S = 62.0
DECISIONS = 5  # of `decide` in a turn


def decided(snapshot: Snapshot) -> dict[str, float]:
    milliseconds = []
    for _ in range(DECISIONS):
        began = time.process_time()
        plan = cluster.decide(snapshot, cluster.CONFIG)
        milliseconds.append((time.process_time() - began) * 1e3)
    return {"milliseconds": min(milliseconds), "starts": len(plan.starts), "preemptions": len(plan.preemptions)}


def simulated(trace: Trace, gpus: int, policy: str) -> dict[str, float]:
    config = replace(PolicyConfig.paper(), preemption_cost=COST_S)
    rules = Rules(POLICIES[policy], config, Cost(resume=COST_S))
    began = time.process_time()
    outcome = simulate(trace, ClusterSize(gpus // 4, 4), rules)
    seconds = time.process_time() - began
    return {"milliseconds": seconds * 1e3 / outcome.decisions, "decisions": outcome.decisions, "seconds": seconds}


def one_turn(policy: str) -> dict[str, dict[str, float]]:
    cluster.CONFIG = PolicyConfig(policy, min_run=0.0, min_run_cost_factor=0.0)
    storm = cluster.snapshot(10_000, 2_000, True, 0)
    return {
        "storm": decided(storm),
        "steady": decided(cluster.churned(cluster.settled(storm), 0)),
        "testbed": simulated(paper_testbed(480, 1), 60, policy),
        "philly": simulated(philly_like(4000, 7, gpus=256, load=1.0), 256, policy),
    }


def turn_of(checkout: Path, policy: str) -> dict[str, dict[str, float]]:
    """Measure once with the code of a checkout, in a process of its own."""
    command = [sys.executable, __file__, "--policy", policy, "--one-turn"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(checkout / "src")}, stdout=subprocess.PIPE, check=True
    )
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


def shortest(turns: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Return the turn with the fewest milliseconds of each case."""
    best = {case: min((turn[case] for turn in turns), key=lambda each: each["milliseconds"]) for case in turns[0]}
    return {case: {name: round(value, 3) for name, value in each.items()} for case, each in best.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="adaptive")
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--one-turn", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one_turn:
        print(json.dumps(one_turn(args.policy)))
        return
    checkouts = {"here": HERE} | ({"against": args.against.resolve()} if args.against else {})
    turns: dict[str, list[Any]] = {name: [] for name in checkouts}
    for _ in range(args.repeat):
        for name, checkout in checkouts.items():
            turns[name].append(turn_of(checkout, args.policy))
    print(json.dumps({name: shortest(found) for name, found in turns.items()}, indent=2))


if __name__ == "__main__":
    main()
