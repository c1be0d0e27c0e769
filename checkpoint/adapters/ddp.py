"""Ranks that agree on the step to stop at by an all-reduce, where torch.distributed is up: no shared file is asked.

    torch.distributed.init_process_group(...)
    checkpointer = Checkpointer.from_env()
    agree_by_all_reduce(checkpointer)

Any rank may receive the request. The rest is as in torch.py: each rank calls TrainingState.save with the same step.

DistributedDataParallel lays its gradients into other buckets after the first iteration of every run, and with three or more ranks
a sum in another order is another sum: for a bit-identical resume it needs find_unused_parameters=True, which keeps the buckets as
they are, or gradients that fit one bucket.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed

from tiresias.checkpoint import Checkpointer


class AllReduce:
    """Whether any rank is to stop, as of the step before: the answer travels while the next step computes.

    On the CPU over a gloo group of its own, so that no GPU is waited for. All ranks call with the same sequence of steps; a rank
    that died makes the others' call fail with gloo's error.
    """

    def __init__(self) -> None:
        self._group: Any = torch.distributed.new_group(backend="gloo")
        self._flag = torch.zeros(1, dtype=torch.uint8, device="cpu")
        self._under_way: Any = None

    def stops_at(self, step: int, requested: bool) -> bool:
        """Every rank gets the same answer at the same step."""
        if self._under_way:
            self._under_way.wait()
            if self._flag.item():
                self._under_way = None
                return True
        self._flag.fill_(requested)
        self._under_way = torch.distributed.all_reduce(
            self._flag, torch.distributed.ReduceOp.MAX, self._group, async_op=True
        )
        return False


def agree_by_all_reduce(checkpointer: Checkpointer) -> None:
    """Every rank calls it once, after init_process_group and before the first should_stop."""
    checkpointer.agree_by(AllReduce())
