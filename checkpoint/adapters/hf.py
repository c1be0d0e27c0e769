"""The Trainer of Hugging Face transformers: save on request at the end of a step, and resume there.

    saver = TrainerCheckpoint(Checkpointer.from_env())
    trainer = Trainer(model, args, callbacks=[saver], ...)
    trainer.train(resume_from_checkpoint=saver.resume_path(args.output_dir))

The Trainer writes its folder (weights, optimizer, scheduler, generators of each rank, its own state) as it does for `save_steps`;
the store takes the files over, hashed and committed as one. The Trainer finds its place in the data by itself.

Also on another number of ranks, where each step has the same samples: `saver.keep_batch(args, 64)` before the Trainer is made.
The samples of the data set must be a multiple of that batch. Ranks that did not exist before have the generators that the program
seeds.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from tiresias.checkpoint import Checkpointer
from tiresias.checkpoint.adapters import packed_files
from tiresias.checkpoint.adapters.rank_waits import measure_waits


class TrainerCheckpoint(TrainerCallback):
    """A callback of the Trainer that saves on request, at the end of a step, and resumes there."""

    def __init__(self, checkpointer: Checkpointer) -> None:
        self._checkpointer = checkpointer
        self._leaving = self._only_requested = False

    def keep_batch(self, args: Any, global_batch: int) -> None:
        """Set the samples of a pass and the passes of a step so that each step has `global_batch` samples on all ranks together.

        Args:
            args: TrainingArguments; `per_device_train_batch_size` is taken as the most samples that fit into one pass.
            global_batch: Samples of a step.

        Raises:
            UsageError: The ranks cannot have equal shares.
        """
        share = self._checkpointer.batch(global_batch, args.per_device_train_batch_size)
        args.per_device_train_batch_size, args.gradient_accumulation_steps = share.of_pass, share.passes

    def resume_path(self, output_dir: str) -> str | None:
        """The newest good checkpoint as a folder that the Trainer reads; None: there is none. Every rank calls it, after
        TrainingArguments have been made. Raises as Checkpointer.restore."""
        found = self._checkpointer.restore(reshard=True)
        if found is None:
            return None
        folder = Path(output_dir) / "resumed"
        if self._checkpointer.world.rank == 0:
            folder.parent.mkdir(parents=True, exist_ok=True)
            packed_files.replace_folder(found.state, folder)
        _together()
        return str(folder)

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:
        """Measure what this rank waits for the others."""
        measure_waits(self._checkpointer, [model])

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> Any:
        """Report the progress, and have the Trainer save after a step at which the ranks are to stop."""
        self._checkpointer.report(state.global_step, state.max_steps)
        if self._checkpointer.should_stop(state.global_step) and not _epoch_ends(state):
            self._leaving, self._only_requested = True, not control.should_save
            control.should_save = True
        return control

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Commit what has just been written, and leave."""
        if not self._leaving:
            return
        _together()  # each rank has written its generators
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        first = self._checkpointer.world.rank == 0
        self._checkpointer.save(
            state.global_step, packed_files.pack(folder, packed_files.inside(folder)) if first else {}
        )
        if first and self._only_requested:
            shutil.rmtree(folder, ignore_errors=True)
        self._checkpointer.exit_for_requeue()


def _epoch_ends(state: Any) -> bool:
    """There is more to do here than a resume would do again: evaluation, callbacks, the end. Unless all steps are such."""
    ends_one = state.epoch == round(state.epoch) and state.max_steps > state.num_train_epochs
    return bool(ends_one or state.global_step >= state.max_steps)


def _together() -> None:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()
