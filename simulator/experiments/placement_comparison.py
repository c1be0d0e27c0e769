"""A trained placement compared with other styles: the same workloads are simulated with each, and differences are paired by seed.

The gain over a style in a workload is 1 - the mean JCT by the network / that by the style. Its mean over the workloads has a 95%
confidence interval by Student's t: the workloads are independent, and what makes one harder than another cancels within a pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Floats
from tiresias.scheduler.place.learned.weights_file import PlacementWeights
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.contention.simulated_contention import SimulatedContention
from tiresias.simulator.experiments.confidence import MeanInterval, mean_interval
from tiresias.simulator.experiments.experiment import Experiment, Setup, run_experiments
from tiresias.simulator.placement_workloads import PlacementWorkload
from tiresias.simulator.simulated_node_speeds import SimulatedNodeSpeeds
from tiresias.simulator.simulated_placement import SimulatedPlacement

LEARNED = "learned"
OTHERS = ("consolidate", "tetris", "load_balancing", "least_interference", "skew")
BY_SPEED = "fastest_nodes"  # compared, too, where nodes differ; elsewhere it is consolidate


@dataclass(frozen=True, slots=True, eq=False)
class PlacementComparison:
    """The mean completion times of the workloads, seconds, by style; arrays of shape (seeds,).

    Attributes:
        seeds: Of the workloads.
        mean_jct: By style, `LEARNED` included.
    """

    seeds: Sequence[int]
    mean_jct: Mapping[str, Floats]

    @property
    def gains(self) -> dict[str, MeanInterval]:
        """The gain of the network over each other style; 0.1: completion times are a tenth lower."""
        learned = self.mean_jct[LEARNED]
        return {name: mean_interval(1.0 - learned / jct) for name, jct in self.mean_jct.items() if name != LEARNED}

    @property
    def not_beaten(self) -> tuple[str, ...]:
        """The styles over which the interval of the gain is not wholly above 0."""
        return tuple(name for name, gain in self.gains.items() if not gain.low > 0.0)


def compare_placements(
    cluster: ClusterSize,
    workload: PlacementWorkload,
    contention: SimulatedContention,
    weights: PlacementWeights,
    seeds: Sequence[int],
    speeds: SimulatedNodeSpeeds | None = None,
) -> PlacementComparison:
    """Simulate the workload of each seed with each style, in order of submission (fifo) and without preemption, in parallel.

    Args:
        cluster: The servers and their network.
        workload: The kind of workload.
        contention: How jobs slow each other.
        weights: The network.
        seeds: Of the workloads.
        speeds: Of the servers; None: they are equal.
    """
    styles = (LEARNED, *OTHERS, *((BY_SPEED,) if speeds else ()))
    experiments: dict[str, Experiment] = {}
    for seed in seeds:
        trace = workload.trace(seed, cluster.gpus)
        setup = Setup("", trace, cluster, PolicyConfig.paper(name="fifo"), interval=0.0, contention=contention)
        for style in styles:
            trained = weights if style == LEARNED else None
            placed = replace(SimulatedPlacement.named(style), trained=trained, speeds=speeds)
            experiments[f"{style}, seed {seed}"] = replace(setup, placement=placed, by_node=True).experiment("fifo")
    found = run_experiments(experiments, lambda experiment, run: run.summary["mean_jct"])
    by_style = {style: np.array([found[f"{style}, seed {seed}"] for seed in seeds]) for style in styles}
    return PlacementComparison(seeds, by_style)
