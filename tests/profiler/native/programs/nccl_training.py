"""A training with data parallelism over NCCL: nccl_training.py STEPS.

Prints the number of parameters and the median seconds of a step.
"""

from __future__ import annotations

import os
import statistics
import sys
import time

import torch
from torch.nn.parallel import DistributedDataParallel

steps, rank = int(sys.argv[1]), int(os.environ["RANK"])
device = torch.device("cuda", rank % torch.cuda.device_count())
torch.cuda.set_device(device)
torch.distributed.init_process_group("nccl")
torch.manual_seed(1)
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(6)), torch.nn.Linear(1024, 10)).to(device)
parallel = DistributedDataParallel(model, bucket_cap_mb=1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, seconds = torch.randn(64, 1024, device=device), []
for _ in range(steps):
    began = time.perf_counter()
    optimizer.zero_grad()
    parallel(inputs).square().mean().backward()
    optimizer.step()
    torch.cuda.synchronize()
    seconds.append(time.perf_counter() - began)
    time.sleep(0.02)  # as a loader of data has it: an iteration has a part without messages
print(sum(each.numel() for each in model.parameters()), statistics.median(seconds[steps // 4 :]))
torch.distributed.destroy_process_group()
