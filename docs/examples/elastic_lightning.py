"""PyTorch Lightning on a number of ranks that may change from run to run: tsrun python elastic_lightning.py [STEPS]"""

import os
import sys

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

from tiresias.checkpoint import Checkpointer
from tiresias.checkpoint.adapters.lightning import LightningCheckpoint
from tiresias.checkpoint.adapters.torch import ResumableSampler

STEPS = int(sys.argv[1]) if sys.argv[1:] else 100_000
BATCH, MOST = 48, 16  # samples of a step on all ranks together; samples that fit into one pass on one GPU


class Model(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).double()

    def training_step(self, batch, number):
        return torch.nn.functional.mse_loss(self.layers(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


torch.manual_seed(1)
samples = torch.randn(960, 16, generator=torch.Generator().manual_seed(2)).double()  # a multiple of BATCH
data = TensorDataset(samples, samples.sum(dim=1, keepdim=True).sin())
checkpointer = Checkpointer.from_env()
world, share = checkpointer.world, checkpointer.batch(BATCH, most=MOST)
sampler = ResumableSampler(len(data), seed=1, rank=world.rank, ranks=world.size)
training = DataLoader(data, batch_size=share.of_pass, sampler=sampler, generator=torch.Generator())
model = Model()

saver = LightningCheckpoint(checkpointer, sampler)
nodes = int(os.environ.get("SLURM_JOB_NUM_NODES", "1"))
trainer = Trainer(
    max_steps=STEPS, max_epochs=-1, accumulate_grad_batches=share.passes, callbacks=[saver], plugins=saver.plugins(),
    use_distributed_sampler=False, num_nodes=nodes, devices=world.size // nodes, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
trainer.fit(model, training, ckpt_path=saver.ckpt_path)
if world.rank == 0:
    torch.save(model.state_dict(), "weights.pt")
