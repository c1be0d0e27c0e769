"""Samples of interference with known coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiresias.scheduler.estimates.interference import Contention, cpu_of_others

PLANTED = (0.05, 0.3, 0.4, 0.6)
EXPONENT = 3.0


def contention(count: int, seed: int) -> Contention:
    chance = np.random.default_rng(seed)
    others = cpu_of_others(chance.uniform(0.0, 1.2, count), chance.uniform(0.0, 1.5, count))
    return Contention(chance.uniform(0.05, 0.8, count), others, *(chance.uniform(0.0, 1.0, count) for _ in range(6)))


def planted(found: Contention, noise: float = 0.0, seed: int = 0) -> Any:
    """The slowdowns by the formula of the module, written again."""
    cpu, memory, network, pcie = PLANTED
    alone, together = np.exp(EXPONENT * found.cpu), np.exp(EXPONENT * (found.cpu + found.cpu_others))
    excess = cpu * (together - alone) + memory * found.memory * found.memory_others
    excess += network * found.network * found.network_others + pcie * found.pcie * found.pcie_others
    return (1.0 + excess) * np.exp(noise * np.random.default_rng(seed).normal(size=len(found.cpu)))
