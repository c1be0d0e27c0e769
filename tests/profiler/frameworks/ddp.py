"""DistributedDataParallel over gloo: one rank of a data-parallel job, without any code for the recorder."""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from trainee import Diary, arguments, counts


class Model(nn.Module):
    """Computes for a given time; each tensor gets a gradient, the last layer's first."""

    def __init__(self, sizes: list[int], seconds: float) -> None:
        super().__init__()
        self.layers = nn.ParameterList(torch.zeros(size) for size in sizes)
        self.seconds = seconds

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        time.sleep(self.seconds)
        for layer in self.layers:
            batch = batch + layer.sum()
        return batch.mean()


def main() -> None:
    args = arguments()
    torch.set_num_threads(1)
    where = f"tcp://127.0.0.1:{args.ports[0]}"
    dist.init_process_group("gloo", init_method=where, rank=args.rank, world_size=args.workers)
    bucket = float(os.environ.get("BUCKET_CAP_MB", "25"))
    model = nn.parallel.DistributedDataParallel(Model(counts(args), args.compute), bucket_cap_mb=bucket)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    diary = Diary(args)
    for _ in range(args.iterations):
        diary.begin()
        optimizer.zero_grad()
        model(torch.ones(8)).backward()
        optimizer.step()
    diary.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
