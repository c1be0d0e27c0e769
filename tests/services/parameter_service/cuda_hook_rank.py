"""A rank of a training with DDP over NCCL: cuda_hook_rank.py hook|nccl OUT. `hook`: the service averages the gradients."""

from __future__ import annotations

import os
import sys

import torch
from torch.nn.parallel import DistributedDataParallel

from tests.services.parameter_service.training import backward, network
from tiresias.services.parameter_service.agent import ServiceHook, average_by_service

HOW, OUT = sys.argv[1:]
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank % torch.cuda.device_count())
torch.distributed.init_process_group("nccl")
inner = network("cuda")
model = DistributedDataParallel(inner, bucket_cap_mb=1)
if HOW == "hook":
    hook = ServiceHook.from_environment()
    model.register_comm_hook(hook, average_by_service)
optimizer = torch.optim.SGD(inner.parameters(), lr=0.02, momentum=0.9)
for step in range(50):
    optimizer.zero_grad()
    backward(model, step, rank)
    optimizer.step()
torch.save(torch.cat([each.detach().cpu().view(-1) for each in inner.parameters()]), OUT)
torch.distributed.destroy_process_group()
