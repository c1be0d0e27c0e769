"""The seeds of the workloads: those of an evaluation occur in no training.

A training validates the network on workloads of their own, so that the weights are not selected by those that they learned from.
"""

from __future__ import annotations

MOST_EVALUATION_SEEDS = 100_000
VALIDATION_WORKLOADS = 12
_VALIDATION = 200_000
_TRAINING = 1_000_000
MOST_EPISODES = 50_000


def evaluation_seeds(count: int) -> range:
    """Return the seeds of an evaluation: 1 to `count`."""
    return range(1, count + 1)


def validation_seeds() -> range:
    """Return the seeds by which a training selects its weights."""
    return range(_VALIDATION, _VALIDATION + VALIDATION_WORKLOADS)


def training_seed(seed: int, episode: int) -> int:
    """Return the seed of the workload of an episode.

    Args:
        seed: Of the training, 0 or more.
        episode: 0 or more, below MOST_EPISODES.
    """
    return _TRAINING * (1 + seed) + episode
