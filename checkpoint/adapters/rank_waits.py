"""How long a rank waits for the other ranks in each step, measured within PyTorch: a training loop needs no `exchange`.

DistributedDataParallel waits for its all-reduce in a callback at the end of the backward pass. One callback that is queued before
it and one after it enclose this wait, whatever communication hook is registered. FSDP2 (fully_shard) waits for parameters and
gradients in methods of its parameter groups. They are timed, as are the collective operations that the program calls.

The waits of a model on a GPU are those of its stream (wait_clocks.py): the host enqueues the exchange and goes on.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from tiresias.checkpoint import Checkpointer
from tiresias.checkpoint.adapters.wait_clocks import WaitClock, clock_for

FSDP_WAITS = ("unshard", "wait_for_unshard", "post_backward", "finalize_backward")
COLLECTIVES = (
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all", "all_to_all_single", "barrier",
    "broadcast", "broadcast_object_list", "gather", "gather_object", "monitored_barrier", "reduce", "reduce_scatter",
    "reduce_scatter_tensor", "scatter", "_broadcast_coalesced",
)  # fmt: skip
MOST_HOOKED = 64  # parameters of which one must be in each backward pass

_measured: weakref.WeakSet[Checkpointer] = weakref.WeakSet()


def measure_waits(checkpointer: Checkpointer, models: Iterable[Any]) -> None:
    """Count what this rank waits for the others while it trains these models; do nothing with one rank, or when called again.

    Args:
        checkpointer: Reports the own work of the rank.
        models: Modules that are trained together, FSDP modules or those that DistributedDataParallel wraps; others are ignored.
    """
    modules = [model for model in models if isinstance(model, torch.nn.Module)]
    parameters = [each for model in modules for each in model.parameters() if each.requires_grad]
    if checkpointer.world.size == 1 or checkpointer in _measured or not parameters:
        return
    clock = clock_for(parameters[0].device, checkpointer.waited)
    if clock is None:
        return
    _measured.add(checkpointer)
    waits = Waits(clock)
    waits.time_methods(torch.distributed, COLLECTIVES)
    groups = [group for model in modules for group in _fsdp_groups(model)]
    for group in groups:
        waits.time_methods(group, FSDP_WAITS)
    if not groups and _queue_of_callbacks():
        every = -(-len(parameters) // MOST_HOOKED)
        torch.autograd.graph.register_multi_grad_hook(parameters[::every], waits.backward, mode="any")


def _queue_of_callbacks() -> Any:
    """Return the function that queues a callback for the end of a backward pass; None where PyTorch has none."""
    return getattr(getattr(torch.autograd.Variable, "_execution_engine", None), "queue_callback", None)


def _fsdp_groups(model: torch.nn.Module) -> Iterator[Any]:
    """The parameter groups of FSDP2; their place differs between releases of PyTorch."""
    for module in model.modules():
        find = getattr(module, "_get_fsdp_state", None)
        state = find() if find else None
        found = getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]
        yield from (group for group in found if group is not None)


class Waits:
    """Measures the waits of one rank.

    Args:
        clock: Measures and counts them.
    """

    def __init__(self, clock: WaitClock) -> None:
        self._clock = clock
        self._within = threading.local()  # a timed method: what it calls is not counted once more

    def backward(self, gradient: torch.Tensor) -> None:
        """A backward pass has begun: a callback that is queued now runs before that of DistributedDataParallel."""
        _queue_of_callbacks()(self._arrived)

    def _arrived(self) -> None:
        began = self._clock.start()
        _queue_of_callbacks()(lambda: self._clock.stop(began))  # after all that the pass has queued

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time within as waited."""
        if getattr(self._within, "timed", False):
            yield
            return
        self._within.timed, began = True, self._clock.start()
        try:
            yield
        finally:
            self._within.timed = False
            self._clock.stop(began)

    def time_methods(self, owner: Any, names: Iterable[str]) -> None:
        """Count the time within these methods of an object, of those that it has."""
        for name in names:
            if method := getattr(owner, name, None):
                setattr(owner, name, self._timed_method(method))

    def _timed_method(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*arguments: Any, **options: Any) -> Any:
            with contextlib.nullcontext() if torch.compiler.is_compiling() else self.timed():
                return method(*arguments, **options)

        return call
