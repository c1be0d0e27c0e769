"""The Trainer of Hugging Face transformers on a number of ranks that may change: tsrun python elastic_transformers.py [STEPS]"""

import os
import sys

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

from tiresias.checkpoint import Checkpointer
from tiresias.checkpoint.adapters.hf import TrainerCheckpoint

STEPS = int(sys.argv[1]) if sys.argv[1:] else 100_000
BATCH, MOST = 48, 16  # samples of a step on all ranks together; samples that fit into one pass on one GPU

# srun names the ranks in its own way; torchrun has done this already.
os.environ.setdefault("RANK", os.environ.get("SLURM_PROCID", "0"))
os.environ.setdefault("LOCAL_RANK", os.environ.get("SLURM_LOCALID", "0"))
os.environ.setdefault("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1"))


class Sentences(Dataset):
    """480 sequences of 12 random words, a multiple of BATCH."""

    def __init__(self) -> None:
        self.words = torch.randint(0, 100, (480, 12), generator=torch.Generator().manual_seed(2))

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.words[index], "labels": self.words[index]}


args = TrainingArguments(
    output_dir="output", max_steps=STEPS, per_device_train_batch_size=MOST, learning_rate=1e-3, seed=1, save_strategy="no",
    logging_steps=50, report_to="none", disable_tqdm=True, ddp_backend=None if torch.cuda.is_available() else "gloo",
    use_cpu=not torch.cuda.is_available(),
)  # fmt: skip
set_seed(1)
config = GPT2Config(vocab_size=100, n_positions=16, n_embd=32, n_layer=2, n_head=2)
config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.0  # random numbers differ on another number of ranks
model = GPT2LMHeadModel(config).double()
saver = TrainerCheckpoint(Checkpointer.from_env())
saver.keep_batch(args, BATCH)
trainer = Trainer(model, args, train_dataset=Sentences(), callbacks=[saver])
trainer.train(resume_from_checkpoint=saver.resume_path(args.output_dir))
if args.process_index == 0:
    torch.save(model.state_dict(), "weights.pt")
