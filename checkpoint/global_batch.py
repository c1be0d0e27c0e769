"""The share of each rank in a batch of a fixed size, for programs that run on different numbers of ranks.

The batch of a step, and with it the loss curve, stays the same whatever the number of ranks.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tiresias.errors import UsageError


class LocalBatch(NamedTuple):
    """The share of one rank in each step.

    Attributes:
        samples: Samples of this rank in a step.
        passes: Forward and backward passes over which they are divided, equally; the gradients are added up.
    """

    samples: int
    passes: int

    @property
    def of_pass(self) -> int:
        """Samples of one pass."""
        return self.samples // self.passes


def local_batch(global_batch: int, ranks: int, most: int = 0) -> LocalBatch:
    """Return the share of each rank in a batch.

    Args:
        global_batch: Samples of a step on all ranks together.
        ranks: Number of ranks.
        most: Samples that fit into one pass on one rank; 0: any number.

    Raises:
        UsageError: The ranks cannot have equal shares.
    """
    if global_batch < 1 or global_batch % ranks:
        raise UsageError(
            f"a batch of {global_batch} samples cannot be divided equally among {ranks} ranks; "
            "choose a batch, or --elastic=MIN-MAX:STEP, so that it can"
        )
    samples = global_batch // ranks
    passes = math.ceil(samples / most) if most > 0 else 1
    return LocalBatch(samples, next(count for count in range(passes, samples + 1) if samples % count == 0))
