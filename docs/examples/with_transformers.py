"""The Trainer of Hugging Face transformers: tsrun python with_transformers.py [STEPS]"""

import sys

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

from tiresias.checkpoint import Checkpointer
from tiresias.checkpoint.adapters.hf import TrainerCheckpoint

STEPS = int(sys.argv[1]) if sys.argv[1:] else 100_000


class Sentences(Dataset):
    """256 sequences of 12 random words."""

    def __init__(self) -> None:
        self.words = torch.randint(0, 100, (256, 12), generator=torch.Generator().manual_seed(2))

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.words[index], "labels": self.words[index]}


args = TrainingArguments(
    output_dir="output", max_steps=STEPS, per_device_train_batch_size=8, learning_rate=1e-3, seed=1, save_strategy="no",
    logging_steps=50, report_to="none", disable_tqdm=True,
)  # fmt: skip
set_seed(1)
model = GPT2LMHeadModel(GPT2Config(vocab_size=100, n_positions=16, n_embd=32, n_layer=2, n_head=2))
saver = TrainerCheckpoint(Checkpointer.from_env())
trainer = Trainer(model, args, train_dataset=Sentences(), callbacks=[saver])
trainer.train(resume_from_checkpoint=saver.resume_path(args.output_dir))
torch.save(model.state_dict(), "weights.pt")
