"""Whether simulated jobs slow each other, and how."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.estimates.interference import EXPONENTIAL, InterferenceModel

# Of the terms cpu, memory, network, pcie. Chosen here, as the paper prints none: two jobs that fill the processors of a server slow
# each other by about a third (its section II-C: 30% on average), and two jobs that each use half of a PCIe link by an eighth.
DEFAULT_INTERFERENCE = InterferenceModel(EXPONENTIAL, np.array([0.02, 0.0, 0.0, 0.5]), 3.0)


@dataclass(frozen=True, slots=True)
class SimulatedContention:
    """How jobs slow each other.

    Attributes:
        interference: On one server; None: not at all.
        network: Whether the links of the cluster's network slow jobs on several servers, if the cluster has one.
    """

    interference: InterferenceModel | None = None
    network: bool = True
