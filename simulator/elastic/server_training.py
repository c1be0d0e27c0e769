"""Training with parameter servers: the speed by placement, and what its loss and a few measured speeds predict (Optimus).

A step takes the seconds of the speed model. Of these the transfer between servers and workers depends on the placement: it is in
proportion to the units that the slowest task exchanges with other nodes (section 4.2), as measured where all of them cross
nodes; and to the parameters of the largest server, where they are not distributed evenly (section 5.3).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from tiresias.protocol.parameter_assignment import assign, assign_as_mxnet
from tiresias.scheduler.estimates.loss_curve import fit as fit_loss
from tiresias.scheduler.estimates.loss_history import LossPoints
from tiresias.scheduler.estimates.speed_forms import SYNCHRONOUS
from tiresias.scheduler.estimates.speed_model import SpeedModel
from tiresias.scheduler.estimates.speed_model import fit as fit_speed
from tiresias.scheduler.model import Floats
from tiresias.scheduler.place.server_placement import place_servers, transfer_time
from tiresias.simulator.elastic_job import JobSize, Prediction
from tiresias.simulator.simulated_convergence import EPOCHS_BELOW, SimulatedConvergence

_TRANSFERS = (2, 5)  # columns of SYNCHRONOUS that are transfers between servers and workers
_UNCERTAIN_PART = 0.2  # share of a job's predicted work up to which its predictions are uncertain
_LOSS_NOISE = 0.01
_LOSSES_AN_EPOCH = 10


@dataclass(frozen=True, slots=True, eq=False)
class ServerTraining:
    """The training of a model with parameter servers, synchronously.

    Attributes:
        model: Its speed by servers and workers where all transfers cross nodes.
        batch: Samples of a step, as in the model's points.
        blocks: Parameters of each block, for `balanced`; (): not known, the servers have equal parts.
        balanced: Whether blocks are assigned to servers by PAA, or as by MXNet.
    """

    model: SpeedModel
    batch: float = 1.0
    blocks: tuple[int, ...] = ()
    balanced: bool = True
    _known: dict[JobSize, float] = field(default_factory=dict, repr=False)

    def speed(self, size: JobSize) -> float:
        """Return steps a second."""
        size = JobSize(tuple(sorted(size.parts)), size.servers)
        if size not in self._known:
            self._known[size] = self._computed(size) if size.servers and size.workers else 0.0
        return self._known[size]

    def _computed(self, size: JobSize) -> float:
        p, w = size.servers, size.workers
        seconds = 1.0 / float(self.model.speed(p, w, self.batch))
        terms = SYNCHRONOUS.matrix(np.array([[p, w, self.batch]], np.float64))[0] * self.model.fits[0].theta
        transfer = float(terms[list(_TRANSFERS)].sum() / terms.sum())
        factor = _crossing(p, w, size.parts) * largest_part(self.blocks, p, self.balanced)
        return 1.0 / (seconds * (1.0 - transfer + transfer * factor))


@lru_cache(maxsize=100_000)
def _crossing(servers: int, workers: int, parts: tuple[int, ...]) -> float:
    """Return the transfer time of the best placement on these parts, as a part of that where all transfers cross nodes."""
    placement = place_servers(servers, workers, parts)
    assert placement is not None
    return transfer_time(placement) / max(servers, workers)


@lru_cache(maxsize=10_000)
def largest_part(blocks: tuple[int, ...], servers: int, balanced: bool) -> float:
    """Return the parameters of the largest server in relation to equal parts, 1 or more.

    Args:
        blocks: Parameters of each block; (): equal parts.
        servers: Number of servers.
        balanced: Blocks are assigned by PAA, or as by MXNet.
    """
    if not blocks:
        return 1.0
    assignment = assign(blocks, servers) if balanced else assign_as_mxnet(blocks, servers)
    return max(assignment.sizes) * servers / sum(blocks)


@dataclass(slots=True, eq=False)
class Estimated:
    """What the estimators predict of a job: its speed from a few measured sizes, its remaining epochs from its losses.

    Attributes:
        slowness: Predicted over true seconds of a step by size, shape (servers + 1, workers + 1).
        convergence: The true course of the loss.
        usual: Epochs that a job takes whose loss predicts nothing yet.
        seed: Of the noise of the losses.
    """

    slowness: Floats
    convergence: SimulatedConvergence
    usual: float
    seed: int
    _at: float = -1.0
    _left: float = 0.0

    def __call__(self, done: float, seconds: Floats) -> Prediction:
        """Predict the seconds left; `done` and `seconds` as of `Predict`."""
        total = self.convergence.epochs
        epochs = done * total
        if self._at < 0 or epochs >= self._at + 0.05 * total:
            self._at, self._left = epochs, self._epochs_left(epochs)
        left = max(self._left - (epochs - self._at), 0.01)
        true = max(total - epochs, 1e-9)
        return Prediction(seconds * self.slowness * (left / true), epochs < _UNCERTAIN_PART * (epochs + left))

    def _epochs_left(self, epochs: float) -> float:
        steps = np.arange(1, int(epochs * _LOSSES_AN_EPOCH) + 1) / _LOSSES_AN_EPOCH
        noise = np.random.default_rng(self.seed).normal(1.0, _LOSS_NOISE, len(steps))
        curve = fit_loss(LossPoints(steps, self.convergence.loss(steps) * noise))
        if curve is None:
            return max(self.usual - epochs, 1.0)
        found = curve.steps_to_convergence(self.convergence.threshold, 1.0, EPOCHS_BELOW).steps
        return found if np.isfinite(found) else self.usual


def slowness(training: ServerTraining, most: int, samples: int, noise: float, chance: np.random.Generator) -> Floats:
    """Return predicted over true seconds by size, shape (most, most), of a speed model fitted to a few random sizes.

    Args:
        training: The true speeds.
        most: Tasks of the largest size.
        samples: Number of measured sizes.
        noise: Standard deviation of a measured speed, as a part of it.
        chance: Random numbers.
    """
    sizes = [(p, w) for p in range(1, most) for w in range(1, most - p + 1)]
    p, w = np.array(sizes).T
    true = training.model.speed(p, w, training.batch)
    taken = chance.choice(len(sizes), samples, replace=False)
    points = np.stack([p, w, np.full(len(p), training.batch), true], axis=1)[taken]
    points[:, 3] *= np.exp(chance.normal(0.0, noise, samples))
    found = np.ones((most, most))
    found[p, w] = true / fit_speed(points, SYNCHRONOUS).speed(p, w, training.batch)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class WithErrors:
    """Predictions that are off by a part of the true value, less with the progress of the job (section 6.3).

    Attributes:
        speed: Error of the speed of each size, as a part of it, shape (servers + 1, workers + 1).
        convergence: Error of the remaining work, as a part of it.
    """

    speed: Floats
    convergence: float

    def __call__(self, done: float, seconds: Floats) -> Prediction:
        """Predict the seconds left; `done` and `seconds` as of `Predict`."""
        left = 1.0 - done
        return Prediction(seconds * (1.0 + self.convergence * left) / (1.0 + self.speed * left))
