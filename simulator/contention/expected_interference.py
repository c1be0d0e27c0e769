"""What a placement expects of the interference between jobs: the table in the snapshots of a simulation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tiresias.scheduler.estimates.interference import Contention, InterferenceModel, cpu_of_others
from tiresias.scheduler.interference_table import InterferenceTable
from tiresias.scheduler.model import Floats, Ints
from tiresias.simulator import models
from tiresias.simulator.contention.job_profiles import profile_of
from tiresias.simulator.topologies.server_kinds import ServerKind


class ExpectedInterference:
    """The slowdown of each model beside each other one on the same socket, if each has as many GPUs as a socket.

    Args:
        names: The model of each row of the trace.
        server: The kind of server for which it is computed; others differ little in the order of the models.
        model: How jobs slow each other.

    Attributes:
        table: The expected slowdowns.
        kind: The row of the table for each row of the trace, shape (jobs,).
    """

    def __init__(self, names: Sequence[str], server: ServerKind, model: InterferenceModel) -> None:
        known = [name.lower() if name.lower() in models.MODELS else models.DEFAULT for name in names]
        kinds, kind = np.unique(known, return_inverse=True)
        self.kind: Ints = kind.astype(np.int64)
        self.table = InterferenceTable.of(kinds.tolist(), _slowdowns(kinds.tolist(), server, model))


def _slowdowns(kinds: Sequence[str], server: ServerKind, model: InterferenceModel) -> Floats:
    """Return the slowdown of each kind beside each other one, shape (kinds, kinds)."""
    gpus = server.gpus // server.sockets
    cpu, pcie = (
        np.array([gpus * use / capacity for use in uses])
        for uses, capacity in (
            ([profile_of(kind).cores for kind in kinds], server.cores),
            ([profile_of(kind).pcie for kind in kinds], server.pcie),
        )
    )
    own, other = (each.ravel() for each in np.indices((len(kinds), len(kinds))))
    nothing = np.zeros(len(own))
    found = Contention(
        cpu[own], cpu_of_others(cpu[other], nothing), nothing, nothing, pcie[own], pcie[other], nothing, nothing
    )
    return model.slowdown(found).reshape(len(kinds), len(kinds))
