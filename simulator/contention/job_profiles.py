"""What a job of each model uses of a server and of the network when it runs alone.

Sizes and step times are those of `models`. The use of processors and PCIe follows from them by these assumptions, as the paper
prints no numbers of its profiles: one core prepares 100 images a second, and a worker has at most 6 cores (section II-C); an image
takes 0.6 MB on its way to the GPU; gradients pass PCIe twice in each step.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from tiresias.simulator import models

IMAGES = {"alexnet": 512}  # of a step of one GPU, where they are not IMAGES_OF_OTHERS
IMAGES_OF_OTHERS = 64
IMAGES_OF_A_CORE = 100.0  # a second
MOST_CORES = 6.0  # of a worker
MEGABYTES_OF_AN_IMAGE = 0.6
_GBIT = 8.0 / 1000.0  # of a megabyte


class JobProfile(NamedTuple):
    """The use of shared parts by each GPU of a job.

    Attributes:
        compute: Seconds of a step without the exchange of gradients between servers.
        gradients: Gbit of the gradients of the model.
        cores: Cores of the processors in use.
        pcie: Gbit/s between the processor and the GPU.
    """

    compute: float
    gradients: float
    cores: float
    pcie: float


@lru_cache(maxsize=1000)
def profile_of(name: str) -> JobProfile:
    """Return the profile of a model by its name in the trace; an unknown one is taken for `models.DEFAULT`."""
    found = models.model(name)
    rate = IMAGES.get(name.lower(), IMAGES_OF_OTHERS) / found.iteration
    transferred = rate * MEGABYTES_OF_AN_IMAGE + 2.0 * found.size / found.iteration
    return JobProfile(
        found.iteration, found.size * _GBIT, min(rate / IMAGES_OF_A_CORE, MOST_CORES), transferred * _GBIT
    )
