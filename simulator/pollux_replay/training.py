"""A training of Pollux' workloads: how long it takes on any number of GPUs and nodes with its fixed batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from tiresias.simulator.pollux_replay.batch_progress import BatchProgress
from tiresias.simulator.pollux_replay.measured_steps import MeasuredSteps

MOST_SAMPLES = {"yolov3": 8}  # samples a GPU that fit into its memory, where fewer than were measured
ONE_GPU = ("ncf",)  # models that train on one GPU only
_ROUNDING = 1e-8


@dataclass(frozen=True, eq=False)
class MeasuredTraining:
    """A model with a batch.

    A GPU that has no memory for its part of the batch accumulates the gradients of several passes before each reduction. On one
    GPU a batch larger than the model's first one is always cut in two, as the noise of the gradient is estimated from both parts.

    Attributes:
        model: Its name.
        batch: Samples of a step of all GPUs.
        times: Measured times of steps.
        progress: Measured trainings.
    """

    model: str
    batch: int
    times: MeasuredSteps
    progress: BatchProgress

    @cached_property
    def most_gpus(self) -> int:
        """The most GPUs: of which each has the fewest samples that were measured, or one."""
        fewest = float(self.times.sizes[:, 2].min())
        return 1 if self.model in ONE_GPU else max(1, int(self.batch // fewest))

    def seconds(self, gpus: int, nodes: int) -> float:
        """Return the seconds of the whole training on so many GPUs and nodes."""
        samples, passes = self._split(gpus)
        step, sync = self.times.at(nodes, gpus, samples)
        return self.progress.steps(gpus * samples * passes) * (step + (passes - 1) * (step - sync))

    def _split(self, gpus: int) -> tuple[int, int]:
        """Return the samples of a pass of each GPU, and the passes of a step."""
        most = min(MOST_SAMPLES.get(self.model, self.times.most_samples), self.times.most_samples)
        own = math.ceil(self.batch / gpus - _ROUNDING)
        passes = math.ceil(own / most - _ROUNDING)
        if gpus == 1 and self.batch > self.progress.batches[0]:
            passes = max(passes, 2)
        samples = math.ceil(own / passes - _ROUNDING)
        return min(samples, max(1, int(self.progress.batches[-1] / (gpus * passes)))), passes
