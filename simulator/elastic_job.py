"""An elastic job of a trace: the sizes that it can have, its speed at each, and what is predicted of it.

    def speed(size: JobSize) -> float:            # steps a second, or any other unit of work
        return measured[size.gpus, size.nodes]

    job = TraceJob("a", submit_time=0.0, num_gpus=4, duration=3600.0, elastic=ElasticJob(1, 16, speed=speed))
    simulate(Trace.of([job]), cluster, Rules(policy, PolicyConfig(sizing="marginal_gain")))

`duration` is what the job takes at `num_gpus` on the fewest nodes: its work is `duration` x the speed there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.model import Floats
from tiresias.simulator.simulated_convergence import SimulatedConvergence


class JobSize(NamedTuple):
    """The size and the placement of a job.

    Attributes:
        parts: GPUs on each of its nodes.
        servers: Of these GPUs, those of parameter servers; all others are workers.
    """

    parts: tuple[int, ...]
    servers: int = 0

    @property
    def gpus(self) -> int:
        """The number of GPUs, those of servers among them."""
        return sum(self.parts)

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self.parts)

    @property
    def workers(self) -> int:
        """The number of workers."""
        return self.gpus - self.servers


class Prediction(NamedTuple):
    """What is predicted of a job.

    Attributes:
        seconds: Seconds left by size, as `Jobs.seconds_by_size`.
        uncertain: As `Jobs.uncertain`.
    """

    seconds: Floats
    uncertain: bool = False


Speed = Callable[[JobSize], float]  # work a second in any unit; 0: the size is not possible
Predict = Callable[
    [float, Floats], Prediction | None
]  # from the share of the work that is done, and the true seconds left by size


def proportional(size: JobSize) -> float:
    """Return the speed of a job that is twice as fast on twice the GPUs."""
    return float(size.gpus)


def exact(_: float, seconds: Floats) -> Prediction:
    """Predict the true seconds left."""
    return Prediction(seconds)


def by_steps(steps: float, speed: Speed, parts: tuple[int, ...], servers: int = 0) -> float:
    """Return the `duration` of a job that trains a number of steps.

    Args:
        steps: In the unit of `speed`.
        speed: The speed of the job.
        parts: Its requested GPUs on the fewest nodes.
        servers: Its servers there.
    """
    return steps / speed(JobSize(parts, servers))


@dataclass(frozen=True, slots=True, eq=False)
class ElasticJob:
    """The elastic part of a job of a trace.

    Attributes:
        least, most: The fewest and the most GPUs that it can use.
        step: Its size differs from the requested one by multiples of this.
        speed: Its speed by size and placement.
        has_servers: It has parameter servers, one at least; each takes a GPU as a worker does.
        predict: What is predicted of it. It is called at each decision. With `Rules.measurements` predictions are fitted instead.
        convergence: The course of its loss, from which its end is then predicted; None: it states its number of steps.

    Raises:
        UsageError: The sizes are not possible.
    """

    least: int
    most: int
    step: int = 1
    speed: Speed = proportional
    has_servers: bool = False
    predict: Predict = exact
    convergence: SimulatedConvergence | None = None

    def __post_init__(self) -> None:
        if not (1 + self.has_servers <= self.least <= self.most and self.step >= 1):
            raise UsageError(
                f"sizes {self.least} to {self.most} by {self.step} are not possible; give {1 + self.has_servers} <= least <= most "
                "and a step of 1 or more"
            )

    def table(self, most: int, gpus_per_node: int) -> Floats:
        """Return the speed by size on the fewest nodes, shape (servers + 1, workers + 1); 0 where a size is not possible.

        Args:
            most: GPUs of the largest size.
            gpus_per_node: GPUs of each node.
        """
        servers = range(1, most) if self.has_servers else range(1)
        found = np.zeros((len(servers) + self.has_servers, most + 1 - self.has_servers))
        for row in servers:
            for gpus in range(max(self.least, row + 1), most + 1):
                found[row, gpus - row] = self.speed(JobSize(fewest_parts(gpus, gpus_per_node), row))
        return found


def fewest_parts(gpus: int, gpus_per_node: int) -> tuple[int, ...]:
    """Return equal parts of some GPUs on the fewest nodes."""
    nodes = -(-gpus // gpus_per_node)
    part, more = divmod(gpus, nodes)
    return (part + 1,) * more + (part,) * (nodes - more)
