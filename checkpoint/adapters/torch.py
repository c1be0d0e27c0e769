"""The whole state of a training loop in plain PyTorch, so that a resumed run is the uninterrupted one, bit for bit.

    checkpointer = Checkpointer.from_env()
    state = TrainingState(model=model, optimizer=optimizer, scheduler=scheduler, scaler=scaler, sampler=sampler)
    step = state.restore(checkpointer)
    while step < steps:
        step = train_one_more(...)
        if checkpointer.should_stop(step):
            state.save(checkpointer, step)
            checkpointer.exit_for_requeue()

Among several ranks (DDP) rank 0 saves what all have alike; each saves its own random generators and its sampler.
A data loader draws a seed from the global generator each time that it is iterated, once more in a run that resumes: give it a
generator of its own, DataLoader(..., sampler=sampler, generator=torch.Generator()).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import torch

from tiresias.checkpoint import Checkpoint, Checkpointer
from tiresias.checkpoint.adapters import encoding
from tiresias.checkpoint.adapters.rank_waits import measure_waits
from tiresias.checkpoint.world import World
from tiresias.errors import UsageError
from tiresias.protocol.job_log import log_line

OF_EACH_RANK = {"rng", "sampler"}


class HasState(Protocol):
    """A part of the training: module, optimizer, LR scheduler, GradScaler, ResumableSampler, or a class of your own."""

    def state_dict(self) -> Any:
        """Return the state to save."""
        ...

    def load_state_dict(self, state: Any, /) -> Any:
        """Restore a saved state."""
        ...


class TrainingState:
    """All parts that the training changes, as one checkpoint.

    Pass the bare model, not its DDP or compiled wrapper: the checkpoint then fits any wrapper of the next run.

    Args:
        parts: The parts by name; None counts as absent. "model" and "sampler" are reserved names.
    """

    def __init__(self, **parts: HasState | None) -> None:
        self._parts: dict[str, HasState] = {name: part for name, part in parts.items() if part is not None}
        self._parts["rng"] = RandomGenerators()

    def save(self, checkpointer: Checkpointer, step: int, wait: bool = True) -> None:
        """Commit `step`; every rank calls it. See Checkpointer.save."""
        checkpointer.save(step, self.to_checkpoint(checkpointer.world.rank), wait)

    def restore(self, checkpointer: Checkpointer) -> int:
        """Load the newest good checkpoint into the parts; its step, 0 where there is none. Raises as Checkpointer.restore."""
        found = checkpointer.restore(reshard=True)
        if found:
            self._load(found, checkpointer.world, own=True)
        measure_waits(checkpointer, self._parts.values())
        return found.step if found else 0

    def to_checkpoint(self, rank: int = 0) -> dict[str, Any]:
        """What `rank` saves. The buffers are the parts' own memory: save before the next step changes it."""
        state: dict[str, Any] = {}
        for name, part in self._parts.items():
            if rank == 0 or name in OF_EACH_RANK:
                state |= encoding.pack(name, part.state_dict())
        return state

    def load(self, found: Checkpoint, world: World) -> None:
        """With another number of ranks than wrote it, random generators stay as the program seeded them."""
        self._load(found, world)

    def _load(self, found: Checkpoint, world: World, own: bool = False) -> None:
        for name, part in self._parts.items():
            if name == "rng" and found.world_size != world.size:
                if world.rank == 0:
                    log_line(
                        f"{found.world_size} ranks saved, {world.size} resume: random generators stay as the program seeds them"
                    )
                continue
            if name not in found.state:
                raise UsageError(f"{found.path}: holds no {name!r}; this program saves more than the one that wrote it")
            part.load_state_dict(encoding.unpack(found.state, name, copy=name != "model", own=own and name != "model"))


class RandomGenerators:
    """Python's, NumPy's and PyTorch's global ones, on the CPU and on this process's GPUs."""

    def state_dict(self) -> dict[str, Any]:
        """Return the states of all generators."""
        devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        return {
            "python": random.getstate(),
            "numpy": np.random.get_state(),
            "cpu": torch.get_rng_state(),
            "cuda": devices,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the states of all generators."""
        random.setstate(state["python"])
        np.random.set_state(state["numpy"])
        torch.set_rng_state(state["cpu"])
        if torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
            torch.cuda.set_rng_state_all(state["cuda"])


class ResumableSampler(torch.utils.data.Sampler[int]):
    """A shuffled order of each epoch that depends on the seed alone, dealt out to ranks, to be taken up in its middle.

    size: samples in the data set. All ranks get equally many, and as many in each epoch: the last size % ranks are left out.
    Report with `taken` what has been trained on: a data loader fetches ahead.

        while sampler.epoch < epochs:
            for batch in loader:
                ...
                sampler.taken(len(batch))
            sampler.next_epoch()
    """

    def __init__(self, size: int, seed: int = 0, rank: int = 0, ranks: int = 1, shuffle: bool = True) -> None:
        self.epoch = 0
        self._size, self._seed, self._rank, self._ranks, self._shuffle = size, seed, rank, ranks, shuffle
        self._consumed = 0  # in this epoch, by all ranks together: still true for another number of them

    def taken(self, samples: int) -> None:
        """This rank, and so every other one, has trained on that many more."""
        self._consumed += samples * self._ranks

    def next_epoch(self) -> None:
        """Start the next epoch."""
        self.epoch, self._consumed = self.epoch + 1, 0

    @property
    def left(self) -> int:
        """Samples of this epoch that this rank has still to train on."""
        return (self._size - self._consumed) // self._ranks

    def __iter__(self) -> Iterator[int]:
        end = self._consumed + self.left * self._ranks
        return iter(self._order()[self._consumed + self._rank : end : self._ranks])

    def __len__(self) -> int:
        """Samples of a whole epoch for this rank, also where the epoch is taken up in its middle."""
        return self._size // self._ranks

    def _order(self) -> list[int]:
        if not self._shuffle:
            return list(range(self._size))
        generator = torch.Generator("cpu").manual_seed(self._seed + self.epoch)
        order: list[int] = torch.randperm(self._size, generator=generator, device="cpu").tolist()
        return order

    def state_dict(self) -> dict[str, int]:
        """Return epoch, position and seed."""
        return {"epoch": self.epoch, "consumed": self._consumed, "seed": self._seed}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Restore epoch, position and seed."""
        self.epoch, self._consumed, self._seed = state["epoch"], state["consumed"], state["seed"]
