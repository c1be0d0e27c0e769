"""The ten models of the paper's testbed (appendix B, Table 6): their sizes, their speed, and what a bad placement costs
them.

Sizes and tensor counts are Table 6. Seconds an iteration on one P100: Inception3, ResNet50, ResNet152, VGG16 (64 images
a GPU) and AlexNet (512) are TensorFlow's published DGX-1 throughput of May 2017 (142, 219, 91.8, 154 and 2987 images a
second); the other five are chosen here, scaled from the nearest relative by the multiply-adds of a forward pass.

`spread` is the factor that one worker a node costs. Figures 3 and 12 give no table: they say that placement matters for
the VGGs and AlexNet only, and 1.67 at most. Here 1.67 is given to the two with the least computation for their traffic, less
to the deeper VGGs, and 1 to all others.
"""

from __future__ import annotations

from typing import NamedTuple


class Model(NamedTuple):
    """A row of Table 6, and the speed of the model.

    Attributes:
        size: Size of the model, MB.
        tensors: Number of tensors.
        large_tensors: Number of tensors of 1 MB and more.
        largest: Size of the largest tensor, MB.
        iteration: Seconds for an iteration on one GPU.
        spread: Factor of the iteration time with one worker on each node.
    """

    size: float
    tensors: int
    large_tensors: int
    largest: float
    iteration: float
    spread: float

    @property
    def skew(self) -> float:
        """The share of the largest tensor in the model: Table 6's last column, S_J of a job without a profile."""
        return self.largest / self.size


MODELS = {
    "vgg19": Model(548.1, 39, 15, 392.0, 0.525, 1.50),
    "vgg16": Model(527.8, 33, 12, 392.0, 0.416, 1.58),
    "vgg11": Model(506.8, 23, 9, 392.0, 0.204, 1.67),
    "alexnet": Model(235.9, 17, 7, 144.0, 0.171, 1.67),
    "resnet152": Model(230.2, 778, 48, 9.0, 0.697, 1.0),
    "resnet101": Model(170.4, 523, 35, 9.0, 0.473, 1.0),
    "resnet50": Model(97.7, 268, 18, 9.0, 0.292, 1.0),
    "inception4": Model(162.9, 599, 81, 5.9, 0.973, 1.0),
    "inception3": Model(91.0, 397, 21, 7.8, 0.451, 1.0),
    "googlenet": Model(26.7, 117, 7, 3.9, 0.127, 1.0),
}
DEFAULT = "resnet50"  # for traces that name no model, or one that is not here


def model(name: str) -> Model:
    """Return the model of this name, or DEFAULT."""
    return MODELS.get(name.lower(), MODELS[DEFAULT])


def slowdown(model: Model, gpus: int, nodes: int, gpus_per_node: int) -> float:
    """Return the iteration time on `nodes` nodes over that on the fewest possible: 1 there, `spread` with one worker a node.

    In between it follows the share of a worker's peers that are on its own node, 1/nodes for an even spread.
    """
    fewest = -(-gpus // gpus_per_node)
    if nodes <= fewest or gpus <= fewest:
        return 1.0
    lost = (1 / fewest - 1 / nodes) / (1 / fewest - 1 / gpus)
    return 1.0 + (model.spread - 1.0) * min(lost, 1.0)
