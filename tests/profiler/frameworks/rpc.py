"""torch.distributed.rpc: workers that push gradients to parameter servers and fetch their tensors, each for itself.

Between nodes TensorPipe sends over TCP (libuv). On one node it would take shared memory, which no recorder of
connections sees; so these processes are configured as if they were on several.
"""

from __future__ import annotations

import time

import torch
from torch.distributed import rpc
from trainee import Diary, arguments, counts

tensors: list[torch.Tensor] = []  # of this server


def push(gradients: list[torch.Tensor]) -> None:
    for tensor, gradient in zip(tensors, gradients, strict=True):
        tensor.add_(gradient, alpha=-0.01)


def fetch() -> list[torch.Tensor]:
    return tensors


def main() -> None:
    args = arguments()
    torch.set_num_threads(1)
    parts = [counts(args)[server :: args.servers] for server in range(args.servers)]
    if args.rank >= args.workers:
        tensors.extend(torch.zeros(count) for count in parts[args.rank - args.workers])
    where = f"tcp://127.0.0.1:{args.ports[0]}"
    options = rpc.TensorPipeRpcBackendOptions(init_method=where, _transports=["uv"], _channels=["basic"])
    rpc.init_rpc(str(args.rank), rank=args.rank, world_size=args.workers + args.servers, rpc_backend_options=options)
    if args.rank < args.workers:
        train(args.iterations, args.compute, parts, Diary(args), [str(args.workers + n) for n in range(args.servers)])
    rpc.shutdown()


def train(iterations: int, compute: float, parts: list[list[int]], diary: Diary, servers: list[str]) -> None:
    gradients = [[torch.ones(count) for count in part] for part in parts]
    for _ in range(iterations):
        diary.begin()
        time.sleep(compute)
        pairs = zip(servers, gradients, strict=True)
        torch.futures.wait_all([rpc.rpc_async(server, push, (part,)) for server, part in pairs])
        torch.futures.wait_all([rpc.rpc_async(server, fetch) for server in servers])
    diary.close()


if __name__ == "__main__":
    main()
