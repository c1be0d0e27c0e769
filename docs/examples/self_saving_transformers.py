"""The Trainer of Hugging Face transformers saves by itself: python self_saving_transformers.py [STEPS]"""

import sys
from pathlib import Path

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint

STEPS = int(sys.argv[1]) if sys.argv[1:] else 100_000


class Sentences(Dataset):
    """256 sequences of 12 random words."""

    def __init__(self) -> None:
        self.words = torch.randint(0, 100, (256, 12), generator=torch.Generator().manual_seed(2))

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.words[index], "labels": self.words[index]}


class Curve(TrainerCallback):
    """One line a step in the file `losses`."""

    def on_log(self, args, state, control, logs=None, **others):
        if logs and "loss" in logs:
            with Path("losses").open("a") as losses:
                print(state.global_step, logs["loss"], file=losses)


args = TrainingArguments(
    output_dir="output", max_steps=STEPS, per_device_train_batch_size=8, learning_rate=1e-3, seed=1, save_strategy="no",
    logging_steps=1, report_to="none", disable_tqdm=True, enable_jit_checkpoint=True,
)  # fmt: skip
set_seed(1)
sizes = {"vocab_size": 100, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 2}
model = GPT2LMHeadModel(GPT2Config(**sizes, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
trainer = Trainer(model, args, train_dataset=Sentences(), callbacks=[Curve()])
last = get_last_checkpoint(args.output_dir) if Path(args.output_dir).is_dir() else None
trainer.train(resume_from_checkpoint=last)
if trainer.state.global_step == STEPS:
    torch.save(model.state_dict(), "weights.pt")
