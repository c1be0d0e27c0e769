"""A training of Lightning without code for Tiresias: lightning_train.py STEPS SECONDS, in an srun step.

Lightning itself saves on SIGUSR1, calls `scontrol requeue`, and resumes. Its handler saves at any point of the training:
here the signal is blocked except during the pause of SECONDS before each batch. Each step's loss goes to `losses`, the weights to
weights.pt. The batch depends on the step alone: Lightning does not skip the batches of the run before.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Any

import lightning.pytorch as lightning
import torch
from lightning.pytorch.plugins.environments import SLURMEnvironment
from torch.utils.data import DataLoader, TensorDataset

STEPS, SECONDS = int(sys.argv[1]), float(sys.argv[2])


class Model(lightning.LightningModule):  # type: ignore[misc]  # the class of an untyped package
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))

    def on_train_batch_start(self, batch: Any, index: int) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        time.sleep(SECONDS)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        numbers = torch.randn(4, 8, generator=torch.Generator().manual_seed(self.global_step))
        loss = self.layers(numbers).square().mean()
        with Path("losses").open("a") as losses:
            print(self.global_step + 1, loss.item(), file=losses)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


torch.manual_seed(1)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
data = DataLoader(TensorDataset(torch.zeros(2 * STEPS, 1)), batch_size=1)
model = Model()
trainer = lightning.Trainer(
    max_steps=STEPS,
    accelerator="cpu",
    devices=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    plugins=[SLURMEnvironment()],
    default_root_dir="root",
)
trainer.fit(model, data)
if trainer.global_step == STEPS:
    torch.save(model.state_dict(), "weights.pt")
