"""PyTorch Lightning: tsrun python with_lightning.py [STEPS]"""

import sys

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

from tiresias.checkpoint import Checkpointer
from tiresias.checkpoint.adapters.lightning import LightningCheckpoint
from tiresias.checkpoint.adapters.torch import ResumableSampler

STEPS = int(sys.argv[1]) if sys.argv[1:] else 100_000


class Model(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 1)
        )

    def training_step(self, batch, number):
        loss = torch.nn.functional.mse_loss(self.layers(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, number):
        self.log("validation", torch.nn.functional.mse_loss(self.layers(batch[0]), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": plateau, "monitor": "validation"}}


torch.manual_seed(1)
samples = torch.randn(1000, 16)
data = TensorDataset(samples, samples.sum(dim=1, keepdim=True).sin())
sampler = ResumableSampler(len(data), seed=1)
training = DataLoader(data, batch_size=32, sampler=sampler, generator=torch.Generator())
validation = DataLoader(data, batch_size=100, generator=torch.Generator())
model = Model()

saver = LightningCheckpoint(Checkpointer.from_env(), sampler)
trainer = Trainer(
    max_steps=STEPS, callbacks=[saver], plugins=saver.plugins(), use_distributed_sampler=False,
    logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
trainer.fit(model, training, validation, ckpt_path=saver.ckpt_path)
torch.save(model.state_dict(), "weights.pt")
