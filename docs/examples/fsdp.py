"""FSDP2: parameters and optimizer state in shards, each rank saves its own: tsrun python fsdp.py [STEPS]

The job may resume on another number of ranks; it is bit-identical on the same number.
"""

import os
import sys

import torch
from torch.distributed.fsdp import fully_shard

from tiresias.checkpoint import Checkpointer
from tiresias.checkpoint.adapters.ddp import agree_by_all_reduce
from tiresias.checkpoint.adapters.fsdp import ShardedState

STEPS = int(sys.argv[1]) if sys.argv[1:] else 100_000

os.environ.setdefault("RANK", os.environ.get("SLURM_PROCID", "0"))
os.environ.setdefault("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1"))
rank = int(os.environ["RANK"])
if torch.cuda.is_available():
    torch.cuda.set_device(rank % torch.cuda.device_count())
    torch.set_default_device("cuda")
    torch.distributed.init_process_group("nccl")
else:
    torch.distributed.init_process_group("gloo")

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 1))
for layer in model:
    if isinstance(layer, torch.nn.Linear):
        fully_shard(layer)
fully_shard(model)
torch.manual_seed(100 + rank)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)

checkpointer = Checkpointer.from_env()
agree_by_all_reduce(checkpointer)
state = ShardedState(model, optimizer, scheduler=scheduler)
step = state.restore(checkpointer)

while step < STEPS:
    inputs = torch.randn(16, 16)  # from the generator that is saved
    loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(dim=1, keepdim=True).sin())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    step += 1
    if step < STEPS and checkpointer.should_stop(step):
        state.save(checkpointer, step)
        checkpointer.exit_for_requeue()

whole = {name: tensor.full_tensor() for name, tensor in model.state_dict().items()}
if rank == 0:
    torch.save(whole, "weights.pt")
torch.distributed.destroy_process_group()
