"""The data path of the parameter service, as JSON: python bench/parameter_service.py [--repeat N] [--mib N]

    aggregator   one aggregator on one core beside a bare loop that does as much: receives the same bytes of two clients, adds them,
                 copies the result and sends it to both. The ratio of the two rates; both runs alternate.
    iteration    two workers push and pull 33.5 MB each, through the service; also gloo's all-reduce and torch's rpc
    update       CPU nanoseconds of an update for each element; with --torch also by PyTorch
    torch        with --torch the same iteration and ratio with an aggregator that updates by PyTorch
    protect      the same iteration with "protect": "mac"; both runs alternate
    compression  bytes and time of zlib at level 1 and of shuffle-zlib on gradients; with --compress also the same iteration of a
                 job with "compress": "shuffle-zlib", and the bytes that its aggregator sent and received on loopback

What a migration costs is measured by parameter_service_migration.py.

Processes are pinned where the machine has two cores: servers to the first, clients to the second. Each figure is a median; the load
of the machine before and after is part of the output.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from service_processes import AggregatorProcesses

from tiresias.services.parameter_service.agent.client_tensor import ClientTensor
from tiresias.services.parameter_service.agent.service_client import ServiceClient
from tiresias.services.parameter_service.agent.service_job import ServiceJob
from tiresias.services.parameter_service.agent.tensor_directory import FileDirectory
from tiresias.services.parameter_service.aggregator.optimizer_kernels import (
    FusedAddition,
    OptimizerKernel,
    Slot,
    StepNumbers,
    optimizer_spec,
)
from tiresias.services.parameter_service.aggregator.torch_addition import torch_addition
from tiresias.services.parameter_service.messages.agent_messages import InitTensor
from tiresias.services.wire.channel import tuned
from tiresias.services.wire.shuffled_payload import deflate_library, packed, unpack

WORKERS = 2
BLOCK = 4 << 20
SERVER_CORE, CLIENT_CORE = 0, 1
NUMBERS = StepNumbers(3, 0.1)


def core_of(number: int) -> int:
    available = sorted(os.sched_getaffinity(0))
    return available[number % len(available)]


def pin(number: int) -> None:
    os.sched_setaffinity(0, {core_of(number)})


def clients(
    job: Callable[[int], ServiceJob], sizes: list[int], work: Callable[[int, Callable[[], None]], Any]
) -> list[Any]:
    """Run `work(rank, step)` in a process for each worker; `step()` pushes and pulls every tensor once."""
    queue: Any = multiprocessing.get_context("fork").SimpleQueue()
    ranks = [
        multiprocessing.get_context("fork").Process(target=_rank, args=(job(at), sizes, work, queue))
        for at in range(WORKERS)
    ]
    for process in ranks:
        process.start()
    found = [queue.get() for _ in ranks]
    for process in ranks:
        process.join()
    return [each for _, each in sorted(found, key=lambda item: item[0])]


def _rank(job: ServiceJob, sizes: list[int], work: Callable[[int, Callable[[], None]], Any], queue: Any) -> None:
    pin(CLIENT_CORE)
    client = ServiceClient(job, FileDirectory(job.file))
    tensors = [ClientTensor(f"t{at}", size, memoryview(bytearray(size))) for at, size in enumerate(sizes)]
    client.assign(tensors)
    gradient = np.random.default_rng(job.rank).normal(0, 1e-3, max(sizes) // 4).astype(np.float32)
    for tensor in tensors:
        if job.rank == 0:
            client.declare(
                tensor,
                InitTensor(tensor.name, (tensor.bytes // 4,), "float32", "sgd", {"lr": 0.1}),
                np.random.default_rng(0).normal(0, 0.1, tensor.bytes // 4).astype(np.float32).data,
            )
        else:
            client.await_declared(tensor, 0)

    def step() -> None:
        for tensor in tensors:
            data = gradient[: tensor.bytes // 4].data.cast("B")
            client.push(tensor, lambda data=data: [data])  # type: ignore[misc]
        client.complete(tensors)

    queue.put((job.rank, work(job.rank, step)))
    client.close()


def blocks(size: int) -> list[int]:
    return [BLOCK] * (size // BLOCK) + ([size % BLOCK // 4 * 4] if size % BLOCK >= 4 else [])


def timed_steps(count: int) -> Callable[[int, Callable[[], None]], list[float]]:
    def work(rank: int, step: Callable[[], None]) -> list[float]:
        found = []
        for _ in range(count):
            start = time.perf_counter()
            step()
            found.append(time.perf_counter() - start)
        return found[1:]

    return work


def of_service(size: int, steps: int, protect: str = "none", compress: str = "none", torch: bool = False) -> float:
    """Seconds of an iteration of two workers."""
    with AggregatorProcesses(1, 4 * size, protect=protect, torch=torch) as service:
        for thread in Path(f"/proc/{service.processes[0].pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {core_of(SERVER_CORE)})
        job = service.job("bench", WORKERS, {f"t{at}": 0 for at in range(len(blocks(size)))}, compress=compress)
        found = clients(job, blocks(size), timed_steps(steps))
    return statistics.median(max(pair) for pair in zip(*found, strict=True))


# -- the bare loop: as many bytes, received, added, copied and sent ---------------------------------------------------------------


def bare(size: int, steps: int) -> float:
    server = socket.create_server(("127.0.0.1", 0))
    context = multiprocessing.get_context("fork")
    queue: Any = context.SimpleQueue()
    serving = context.Process(target=_bare_server, args=(server, size, steps))
    serving.start()
    ranks = [
        context.Process(target=_bare_client, args=(server.getsockname(), size, steps, queue)) for _ in range(WORKERS)
    ]
    for process in ranks:
        process.start()
    found = [queue.get() for _ in ranks]
    for process in [*ranks, serving]:
        process.join()
    return statistics.median(max(pair) for pair in zip(*found, strict=True))


def _bare_server(server: socket.socket, size: int, steps: int) -> None:
    pin(SERVER_CORE)
    socks = [tuned(server.accept()[0]) for _ in range(WORKERS)]
    gradients = [np.zeros(BLOCK // 4, np.float32) for _ in socks]
    master = np.zeros(size // 4, np.float32)
    for _ in range(steps):
        for start in range(0, size, BLOCK):
            count = min(BLOCK, size - start) // 4
            part = master[start // 4 : start // 4 + count]
            for sock, gradient in zip(socks, gradients, strict=True):
                _receive(sock, gradient[:count])
                np.add(part, gradient[:count], out=part)
            answer = part.copy()
            for sock in socks:
                sock.sendall(answer.data.cast("B"))


def _bare_client(address: tuple[str, int], size: int, steps: int, queue: Any) -> None:
    pin(CLIENT_CORE)
    sock = tuned(socket.create_connection(address))
    data, back = np.ones(size // 4, np.float32), np.zeros(size // 4, np.float32)
    found = []
    for _ in range(steps):
        start = time.perf_counter()
        sender = threading.Thread(target=sock.sendall, args=(data.data.cast("B"),))
        sender.start()
        _receive(sock, back)
        sender.join()
        found.append(time.perf_counter() - start)
    queue.put(found[1:])


def _receive(sock: socket.socket, into: Any) -> None:
    view = into.data.cast("B")
    while len(view):
        view = view[sock.recv_into(view) :]


# -- gloo ---------------------------------------------------------------------------------------------------------------------


def of_gloo(folder: Path, size: int, steps: int) -> float:
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    ranks = [
        context.Process(target=_gloo_rank, args=(str(folder / "gloo"), at, size, steps, queue)) for at in range(WORKERS)
    ]
    for process in ranks:
        process.start()
    found = [queue.get() for _ in ranks]
    for process in ranks:
        process.join()
    (folder / "gloo").unlink(missing_ok=True)
    return statistics.median(max(pair) for pair in zip(*found, strict=True))


def _gloo_rank(file: str, rank: int, size: int, steps: int, queue: Any) -> None:
    import torch

    torch.set_num_threads(1)
    pin(rank)
    torch.distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=WORKERS)
    data, parameters = torch.full((size // 4,), 1e-3), torch.zeros(size // 4)
    found = []
    for _ in range(steps):
        start = time.perf_counter()
        torch.distributed.all_reduce(data)
        parameters.add_(data.div_(WORKERS), alpha=-0.1)
        found.append(time.perf_counter() - start)
    queue.put(found[1:])
    torch.distributed.destroy_process_group()


# -- torch.distributed.rpc: the pattern of PyTorch's parameter-server tutorial ----------------------------------------------------


class RpcServer:
    """The batch-updating parameter server of PyTorch's tutorial: workers push a gradient and get a future of the parameters."""

    def __init__(self, size: int) -> None:
        import torch

        self.parameters, self.sum = torch.zeros(size // 4), torch.zeros(size // 4)
        self.lock, self.future, self.count = threading.Lock(), torch.futures.Future(), 0


RPC_SERVER: list[RpcServer] = []


def rpc_update(gradient: Any) -> Any:
    import torch

    server = RPC_SERVER[0]
    with server.lock:
        server.sum += gradient
        server.count += 1
        future = server.future
        if server.count == WORKERS:
            server.parameters.add_(server.sum.div_(WORKERS), alpha=-0.1)
            server.sum.zero_()
            server.count, server.future = 0, torch.futures.Future()
            future.set_result(server.parameters)
    return future


def of_rpc(folder: Path, size: int, steps: int) -> float:
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    ranks = [
        context.Process(target=_rpc_rank, args=(str(folder / "rpc"), at, size, steps, queue))
        for at in range(WORKERS + 1)
    ]
    for process in ranks:
        process.start()
    found = [queue.get() for _ in range(WORKERS)]
    for process in ranks:
        process.join()
    (folder / "rpc").unlink(missing_ok=True)
    return statistics.median(max(pair) for pair in zip(*found, strict=True))


def _rpc_rank(file: str, rank: int, size: int, steps: int, queue: Any) -> None:
    import torch
    from torch.distributed import rpc

    torch.set_num_threads(1)
    pin(SERVER_CORE if rank == WORKERS else CLIENT_CORE)
    update = rpc.functions.async_execution(rpc_update)
    sys.modules[update.__module__].rpc_update = update  # type: ignore[attr-defined]  # it is sent by its name
    if rank == WORKERS:
        RPC_SERVER.append(RpcServer(size))
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{file}", rpc_timeout=120)
    rpc.init_rpc(f"rank-{rank}", rank=rank, world_size=WORKERS + 1, rpc_backend_options=options)
    if rank < WORKERS:
        gradient, found = torch.full((size // 4,), 1e-3), []
        for _ in range(steps):
            start = time.perf_counter()
            rpc.rpc_sync(f"rank-{WORKERS}", update, args=(gradient,))
            found.append(time.perf_counter() - start)
        queue.put(found[1:])
    rpc.shutdown()


# -- the update -------------------------------------------------------------------------------------------------------------------


def update_ns(fused: FusedAddition | None) -> dict[str, float]:
    """CPU nanoseconds of an update for each element of a block with the gradients of two ranks, by optimizer."""
    elements, found = BLOCK // 4, {}
    chance = np.random.default_rng(0)
    arrays = [np.abs(chance.normal(size=elements)).astype(np.float32) for _ in range(8)]
    kernel = OptimizerKernel(np.dtype(np.float32), fused)
    for name, options in (("sgd", {}), ("momentum", {"momentum": 0.9}), ("adam", {})):
        spec = optimizer_spec("adam" if name == "adam" else "sgd", options)
        old, new = (Slot(part[0], part[1 : 1 + spec.arrays]) for part in (arrays[2:5], arrays[5:8]))
        updates = [
            cpu_timed(lambda spec=spec, old=old, new=new: kernel.update(spec, NUMBERS, arrays[:2], old, new))[1]
            for _ in range(10)
        ]
        found[name] = 1e9 * min(updates) / elements
    return found


# -- compression ------------------------------------------------------------------------------------------------------------------


def gradients_of(size: int) -> dict[str, Any]:
    """float32 gradients: of a real network, of noise, and of an embedding of which a batch uses 7% of the rows."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512))
    model(torch.randn(64, 512)).square().mean().backward()
    real = np.concatenate([each.grad.numpy().ravel() for each in model.parameters()])
    chance = np.random.default_rng(0)
    noise = chance.normal(0, 1e-3, min(size, BLOCK) // 4).astype(np.float32)
    embedding = np.zeros((4096, 256), np.float32)
    embedding[chance.choice(4096, 300, replace=False)] = chance.normal(0, 1e-3, (300, 256))
    return {"network": real, "noise": noise, "embedding": embedding.ravel()}


def compressed(size: int) -> dict[str, Any]:
    """What zlib at level 1 and shuffle-zlib make of gradients, and MB of gradients a CPU second."""
    found: dict[str, Any] = {"library": deflate_library().__name__}
    for name, values in gradients_of(size).items():
        data = values.data.cast("B")
        plain, plain_s = cpu_timed(lambda data=data: zlib.compress(data, 1))
        parts, packed_s = cpu_timed(lambda data=data: packed(data, 4))
        payload, place = memoryview(b"".join(parts)), memoryview(bytearray(len(data)))
        _, unpacked_s = cpu_timed(lambda payload=payload, place=place: unpack(payload, place))
        found[name] = {
            "zlib": {"part": len(plain) / len(data), "mb_per_cpu_s": len(data) / 1e6 / plain_s},
            "shuffle-zlib": {
                "part": len(payload) / len(data),
                "mb_per_cpu_s": len(data) / 1e6 / packed_s,
                "unpacked_mb_per_cpu_s": len(data) / 1e6 / unpacked_s,
            },
        }
    return found


def cpu_timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result, and the least CPU seconds of three calls."""
    found, seconds = None, []
    for _ in range(3):
        began = time.process_time()
        found = work()
        seconds.append(time.process_time() - began)
    return found, min(seconds)


def loopback_bytes() -> int:
    """Bytes that loopback has carried, of every program."""
    return int(Path("/sys/class/net/lo/statistics/tx_bytes").read_text())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3, help="alternations of the measurements; 3")
    parser.add_argument("--steps", type=int, default=12, help="iterations of each; 12")
    parser.add_argument("--mb", type=float, default=33.5, help="MB of each worker, each way; 33.5")
    parser.add_argument("--compress", action="store_true", help="also iterations with shuffle-zlib, and their bytes")
    parser.add_argument("--torch", action="store_true", help='also with "torch": true of the aggregator')
    args = parser.parse_args()
    size = int(args.mb * 1e6) // 4 * 4
    found: dict[str, list[float]] = {"service": [], "service_mac": [], "bare": [], "gloo": [], "rpc": []}
    counted: dict[str, list[float]] = {}
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        folder = Path(name)
        for _ in range(args.repeat):
            found["bare"].append(bare(size, args.steps))
            found["service"].append(of_service(size, args.steps))
            found["service_mac"].append(of_service(size, args.steps, "mac"))
            if args.torch:
                found.setdefault("service_torch", []).append(of_service(size, args.steps, torch=True))
            if args.compress:
                for name, compress in (("service_bytes", "none"), ("compressed", "shuffle-zlib")):
                    before = loopback_bytes()
                    found.setdefault(name, []).append(of_service(size, args.steps, compress=compress))
                    counted.setdefault(name, []).append((loopback_bytes() - before) / args.steps)
            found["gloo"].append(of_gloo(folder, size, args.steps))
            found["rpc"].append(of_rpc(folder, size, args.steps))
    medians = {name: statistics.median(each) for name, each in found.items()}
    ratios = [one / two for one, two in zip(found["bare"], found["service"], strict=True)]
    result = {
        "load_before": load,
        "load_after": os.getloadavg()[0],
        "cores": len(os.sched_getaffinity(0)),
        "bytes": size,
        "iteration_s": medians,
        "aggregator_of_bare": statistics.median(ratios),
        "update_ns": {"numpy": update_ns(None)} | ({"torch": update_ns(torch_addition())} if args.torch else {}),
        "torch_of_bare": medians["bare"] / medians["service_torch"] if args.torch else None,
        "mac_of_service": medians["service_mac"] / medians["service"],
        "loopback_bytes_of_iteration": {name: statistics.median(each) for name, each in counted.items()},
        "compression": compressed(size),
    }
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
