"""FSDP2 on a number of ranks that may change from run to run: tsrun python elastic_fsdp.py [STEPS]

Each step trains on the same BATCH samples on any number of ranks, so the loss curve is that of a job of a fixed size.
Parameters and optimizer state are divided anew among the ranks of each run.
"""

import os
import sys
from pathlib import Path

import torch
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, TensorDataset

from tiresias.checkpoint import Checkpointer
from tiresias.checkpoint.adapters.ddp import agree_by_all_reduce
from tiresias.checkpoint.adapters.fsdp import ShardedState
from tiresias.checkpoint.adapters.torch import ResumableSampler

STEPS = int(sys.argv[1]) if sys.argv[1:] else 100_000
BATCH, MOST = 48, 16  # samples of a step on all ranks together; samples that fit into one pass on one GPU

os.environ.setdefault("RANK", os.environ.get("SLURM_PROCID", "0"))
os.environ.setdefault("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1"))
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if torch.cuda.is_available():
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl")
else:
    device = torch.device("cpu")
    torch.distributed.init_process_group("gloo")

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).double().to(device)
for layer in model:
    if isinstance(layer, torch.nn.Linear):
        fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
samples = torch.randn(960, 16, generator=torch.Generator().manual_seed(2)).double()  # a multiple of BATCH
data = TensorDataset(samples, samples.sum(dim=1, keepdim=True).sin())
sampler = ResumableSampler(len(data), seed=1, rank=rank, ranks=ranks)

checkpointer = Checkpointer.from_env()
agree_by_all_reduce(checkpointer)
state = ShardedState(model, optimizer, sampler=sampler)
step = state.restore(checkpointer)
share = checkpointer.batch(BATCH, most=MOST)
loader = DataLoader(data, batch_size=share.of_pass, sampler=sampler, generator=torch.Generator())
losses = Path("losses").open("a") if rank == 0 else None  # noqa: SIM115 - until the end of the program


def train(batches) -> torch.Tensor:
    """Make one step of several passes; return the loss of this rank."""
    total = torch.zeros((), dtype=torch.float64, device=device)
    for place in range(share.passes):
        inputs, targets = next(batches)
        model.set_requires_gradient_sync(place == share.passes - 1)  # the gradients travel once in each step
        outputs = model(inputs.to(device))
        loss = torch.nn.functional.mse_loss(outputs, targets.to(device)) / share.passes
        loss.backward()
        total += loss.detach()
        sampler.taken(len(inputs))
    optimizer.step()
    optimizer.zero_grad()
    return total


while step < STEPS:
    batches = iter(loader)
    for _ in range(sampler.left // share.samples):
        loss = train(batches)
        torch.distributed.reduce(loss, 0)
        step += 1
        if losses:
            print(step, loss.item() / ranks, ranks, file=losses, flush=True)
        if step == STEPS:
            break
        if checkpointer.should_stop(step):
            state.save(checkpointer, step)
            checkpointer.exit_for_requeue()
    else:
        sampler.next_epoch()

whole = {name: tensor.full_tensor() for name, tensor in model.state_dict().items()}
if rank == 0:
    torch.save(whole, "weights.pt")
torch.distributed.destroy_process_group()
