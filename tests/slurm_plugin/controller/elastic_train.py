"""A training with PyTorch's own checkpoints under torchrun, without code for Tiresias: elastic_train.py STEPS SECONDS

A handler of SIGTERM sets a flag; the ranks agree on it at each step, save with torch.distributed.checkpoint and end. It resumes
from the newest complete checkpoint in `out`. Rank 0 writes each step's loss to `losses`, and the weights at the end to weights.pt.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel

STEPS, SECONDS = int(sys.argv[1]), float(sys.argv[2])
requested = torch.zeros(1)
signal.signal(signal.SIGTERM, lambda number, frame: requested.fill_(1))
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(1)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
step = 0


def state() -> dict[str, Any]:
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments, "step": torch.tensor(step)}


if complete := sorted(Path("out").glob("step-*/.metadata"), key=lambda path: int(path.parent.name.split("-")[1])):
    found = state()
    dcp.load(found, checkpoint_id=complete[-1].parent)
    set_state_dict(model, optimizer, model_state_dict=found["model"], optim_state_dict=found["optimizer"])
    step = int(found["step"])

while step < STEPS:
    stop = requested.clone()
    dist.all_reduce(stop, op=dist.ReduceOp.MAX)
    if stop:
        dcp.save(state(), checkpoint_id=f"out/step-{step}")
        dist.destroy_process_group()
        sys.exit(0)
    batch = torch.randn(4, 8, generator=torch.Generator().manual_seed(1000 * step + rank))
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    time.sleep(SECONDS)
    step += 1
    if rank == 0:
        with Path("losses").open("a") as losses:
            print(step, loss.item(), file=losses)
if rank == 0:
    torch.save(model.module.state_dict(), "weights.pt")
dist.destroy_process_group()
