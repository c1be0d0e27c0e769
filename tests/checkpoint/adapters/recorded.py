"""A training program of someone else whose samples are recorded: python recorded.py PROGRAM [ARGUMENTS]

Each process appends the number of the epoch and the index of each sample to ./samples-RANK when its ResumableSampler counts them as
taken. What the program computes is the same.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from torch.utils.data import TensorDataset

from tiresias.checkpoint.adapters.torch import ResumableSampler

fetched: list[int] = []
get_item, taken = TensorDataset.__getitem__, ResumableSampler.taken


def fetch(data: TensorDataset, index: int) -> object:
    fetched.append(index)
    return get_item(data, index)


def take(sampler: ResumableSampler, samples: int) -> None:
    rank = os.environ.get("RANK") or os.environ.get("SLURM_PROCID", "0")
    with Path(f"samples-{rank}").open("a") as file:
        file.writelines(f"{sampler.epoch} {index}\n" for index in fetched[:samples])
    del fetched[:samples]
    taken(sampler, samples)


for owner, name, function in ((TensorDataset, "__getitem__", fetch), (ResumableSampler, "taken", take)):
    setattr(owner, name, function)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
