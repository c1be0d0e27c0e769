"""PyTorch Lightning: save on request at the end of a batch, and resume there.

    saver = LightningCheckpoint(Checkpointer.from_env(), sampler)
    trainer = Trainer(callbacks=[saver], plugins=saver.plugins(), use_distributed_sampler=False, ...)
    trainer.fit(model, loader, ckpt_path=saver.ckpt_path)

What Lightning itself would save goes through the store, and with it what it would not: the random generators of each rank and the
position in the data. Its own requeueing is switched off: on its signal it would write an unverified checkpoint and call
`scontrol requeue`, which does not exist in most containers, and then two would requeue the same job.

Also on another number of ranks, where each step has the same samples: the loader has `share.of_pass` samples of a
`share = checkpointer.batch(64)`, the Trainer accumulate_grad_batches=share.passes, and the sampler rank and ranks of
`checkpointer.world`. The samples of the data set must be a multiple of the batch.

Ranks are started by srun or torchrun. Strategies that write sharded files by themselves (FSDP, DeepSpeed) are refused at the start.
"""

from __future__ import annotations

import math
import signal
from typing import Any

from lightning.pytorch import Callback
from lightning.pytorch.plugins.environments import SLURMEnvironment
from lightning.pytorch.plugins.io import TorchCheckpointIO

from tiresias.checkpoint import Checkpoint, Checkpointer
from tiresias.checkpoint.adapters import encoding
from tiresias.checkpoint.adapters.rank_waits import measure_waits
from tiresias.checkpoint.adapters.torch import ResumableSampler, TrainingState
from tiresias.errors import TiresiasError

_PLACEHOLDER = "tiresias-checkpoint"  # in the place of a path


class LightningCheckpoint(Callback):
    """Made right after the Checkpointer. sampler: that of the training loader, for a resume in the middle of an epoch."""

    def __init__(self, checkpointer: Checkpointer, sampler: ResumableSampler | None = None) -> None:
        self._checkpointer, self._sampler = checkpointer, sampler
        self._state = TrainingState(sampler=sampler)
        self._total_steps: int | None = None
        self._found = checkpointer.restore(reshard=True)
        self._io = _StoreIO(self._found)
        self._on_sigterm = signal.getsignal(signal.SIGTERM)
        if self._found:  # the sampler's place, before a loader asks for it; the generators once more at the start
            self._state.load(self._found, checkpointer.world)

    @property
    def ckpt_path(self) -> str | None:
        """For Trainer.fit."""
        return _PLACEHOLDER if self._found else None

    def plugins(self) -> list[Any]:
        """For the Trainer."""
        return [self._io, *([SLURMEnvironment(auto_requeue=False)] if SLURMEnvironment.detect() else [])]

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Take the passes of a step, before Lightning restores its loops."""
        self._io.passes = trainer.accumulate_grad_batches

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Here the loaders have drawn their seeds and no batch has been fetched."""
        signal.signal(signal.SIGTERM, self._on_sigterm)  # Lightning's would end the training between two agreed steps
        if trainer.world_size != self._checkpointer.world.size:
            raise TiresiasError(
                f"Lightning has {trainer.world_size} ranks, the job's launcher started "
                f"{self._checkpointer.world.size}: start one process a device, with srun or torchrun"
            )
        batches = trainer.estimated_stepping_batches  # inf: it trains until it is stopped
        self._total_steps = int(batches) if math.isfinite(batches) else None
        measure_waits(self._checkpointer, [pl_module])
        self._dump(trainer)  # what cannot be saved is reported now, not at a preemption
        if self._found:
            self._state.load(self._found, self._checkpointer.world)
            self._found = None

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Save and leave after a batch at which the ranks are to stop."""
        if self._sampler:
            self._sampler.taken(min(trainer.train_dataloader.batch_size, self._sampler.left))
        step = trainer.global_step
        self._checkpointer.report(step, self._total_steps)
        if self._checkpointer.should_stop(step) and _may_stop(trainer, batch_idx + 1):
            self._checkpointer.save(
                step, self._dump(trainer) | self._state.to_checkpoint(self._checkpointer.world.rank)
            )
            self._checkpointer.exit_for_requeue()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Advance the sampler to the next epoch."""
        if self._sampler:
            self._sampler.next_epoch()

    def _dump(self, trainer: Any) -> dict[str, Any]:
        """Lightning's own checkpoint, packed; {} on other ranks than the first."""
        self._io.caught = None
        trainer.save_checkpoint(_PLACEHOLDER)
        if self._checkpointer.world.rank:
            return {}
        if self._io.caught is None:
            raise TiresiasError(
                f"{type(trainer.strategy).__name__} writes its checkpoints by itself; use strategy='ddp'"
            )
        return encoding.pack("lightning", self._io.caught) | {"passes": trainer.accumulate_grad_batches}


def _may_stop(trainer: Any, batches: int) -> bool:
    """Not where a validation or the epoch's end is due, which a resume would leave out, nor between the batches of one step.

    Unless all steps are such. batches: done in this epoch.
    """
    every, together = trainer.val_check_batch, trainer.accumulate_grad_batches
    done = trainer.fit_loop.total_batch_idx + 1 if trainer.check_val_every_n_epoch is None else batches
    due = every > together and (trainer.is_last_batch or done % every == 0)
    return not due and batches % together == 0


class _StoreIO(TorchCheckpointIO):
    """Catches what Lightning saves for us and hands out what was found; other paths are files as ever."""

    def __init__(self, found: Checkpoint | None) -> None:
        super().__init__()
        self._found = found
        self.caught: dict[str, Any] | None = None
        self.passes = 1  # of a step in this run

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        if path == _PLACEHOLDER:
            self.caught = checkpoint
        else:
            super().save_checkpoint(checkpoint, path, storage_options)

    def load_checkpoint(self, path: Any, *args: Any, **options: Any) -> dict[str, Any]:
        if path != _PLACEHOLDER or self._found is None:
            return super().load_checkpoint(path, *args, **options)  # type: ignore[no-any-return]
        found: dict[str, Any] = encoding.unpack(self._found.state, "lightning")
        before = self._found.state.get("passes", self.passes)
        _count_in(found["loops"]["fit_loop"]["epoch_loop.batch_progress"], before, self.passes)
        return found


def _count_in(progress: dict[str, Any], before: int, now: int) -> None:
    """Count the batches that are done in passes of this run's length. They are saved between two steps: all counts are whole."""
    for counts in (progress["total"], progress["current"]):
        for name, count in counts.items():
            counts[name] = count * now // before
