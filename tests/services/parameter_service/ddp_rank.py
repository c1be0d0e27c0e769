"""A rank of a training with DDP over gloo: ddp_rank.py hook|gloo STEPS FOLDER. `hook`: the service averages the gradients.

Each 10th step is saved. The first run of a rank kills itself before the step that TEST_KILL_AT names.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.services.parameter_service.training import backward, network
from tiresias.checkpoint import Checkpointer
from tiresias.checkpoint.adapters.torch import TrainingState
from tiresias.services.parameter_service.agent import ServiceHook, average_by_service

HOW, STEPS, FOLDER = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
os.environ.setdefault("RANK", os.environ.get("SLURM_PROCID", "0"))
os.environ.setdefault("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1"))
rank = int(os.environ["RANK"])
torch.distributed.init_process_group("gloo")
inner = network()
# Small buckets: there are several, and DDP chooses them anew after the first step.
model = DistributedDataParallel(inner, bucket_cap_mb=0.001)
if HOW == "hook":
    hook = ServiceHook.from_environment()
    model.register_comm_hook(hook, average_by_service)
optimizer = torch.optim.SGD(inner.parameters(), lr=0.02, momentum=0.9)
checkpointer = Checkpointer(FOLDER / "checkpoints")
state = TrainingState(model=inner, optimizer=optimizer)
first = state.restore(checkpointer)
for step in range(first, STEPS):
    if os.environ.get("TEST_KILL_AT") == str(step):
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.zero_grad()
    backward(model, step, rank)
    optimizer.step()
    if (step + 1) % 10 == 0:
        state.save(checkpointer, step + 1)
torch.save(torch.cat([each.detach().view(-1) for each in inner.parameters()]), FOLDER / f"{rank}.pt")
if HOW == "hook":
    hook.close()
torch.distributed.destroy_process_group()
