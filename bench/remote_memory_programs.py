"""The programs of remote_memory_workloads.py: python bench/remote_memory_programs.py JSON

The JSON names the workload, its MiB, the seconds, and for a region its donors, key, folder and resident bytes. Prints JSON: MiB of
the data that the program used per second, its anonymous memory before it had data, and a region's statistics. The measurement
begins after two passes over the data, and when a region's pages are on donors.

numpy_read      A matrix is multiplied by a vector and its transpose by the result, in blocks (a step of power iteration).
numpy_write     Blocks are normalised in place and multiplied by a matrix of 16 columns.
torch_ordered   A torch data loader yields batches of 256 samples of 12 KiB in order; a step of SGD on softmax regression follows.
torch_shuffled  The same in random order.
touch           Random pages are read: the time of each.

Interpreter and libraries are locked in memory, so that a limit applies to the data alone.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
ROWS, COLUMNS, CLASSES = 256, 1024, 10
SAMPLE = 3072  # float32, as an image of 32 x 32 in three colours
PAGE = 4096
MCL_CURRENT = 1
TOUCHES = 4000
WARM_PASSES, WARM_STEPS, MOST_WARM_S = 2, 16, 8.0
MOSTLY = 0.95


def memory(options: dict[str, Any], shape: tuple[int, int], stack: ExitStack) -> tuple[Array, Any]:
    """Return the workload's array, and its region where it has one."""
    if "donors" not in options:
        return np.empty(shape, "float32"), None
    from tiresias.services.remote_memory.client.region_settings import RegionSettings
    from tiresias.services.remote_memory.messages.job_key import job_key
    from tiresias.services.remote_memory.region.remote_region import RemoteRegion
    from tiresias.services.wire.peer_identity import agent_identity

    key = job_key(bytes.fromhex(options["key"]), "job-1")
    pages, slab = options["mib"] << 8, options["slab_mib"] << 20
    identity, folder = agent_identity("job-1", 0, 0), Path(options["folder"])
    settings = RegionSettings(identity, key, tuple(options["donors"]), folder, pages, slab_bytes=slab)
    region = stack.enter_context(RemoteRegion(settings, options["resident"]))
    return region.array(shape, "float32"), region


def lock_what_is_here() -> None:
    """Lock the interpreter and the libraries in memory."""
    if ctypes.CDLL(None, use_errno=True).mlockall(MCL_CURRENT):
        raise OSError(ctypes.get_errno(), "mlockall")


def filled(array: Array) -> Array:
    """Fill an array with random numbers, in blocks."""
    random = np.random.default_rng(1)
    for at in range(0, len(array), ROWS):
        array[at : at + ROWS] = random.random((min(ROWS, len(array) - at), array.shape[1]), dtype="float32")
    return array


def numpy_read(array: Array) -> Iterator[int]:
    """Yield the bytes of each block."""
    vector = np.ones(array.shape[1], "float32")
    while True:
        result = np.zeros_like(vector)
        for at in range(0, len(array), ROWS):
            block = array[at : at + ROWS]
            result += block.T @ (block @ vector)
            yield block.nbytes
        vector = result / np.linalg.norm(result)


def numpy_write(array: Array) -> Iterator[int]:
    """Yield the bytes of each block."""
    weights = np.random.default_rng(2).random((array.shape[1], 16), dtype="float32")
    while True:
        for at in range(0, len(array), ROWS):
            block = array[at : at + ROWS]
            block -= block.mean(axis=0)
            block /= block.std(axis=0) + 1e-6
            _ = block @ weights
            yield block.nbytes


def torch_batches(array: Array, shuffled: bool) -> Iterator[int]:
    """Yield the bytes of each batch, after a step of training on it."""
    import torch
    from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler, TensorDataset

    torch.set_num_threads(1)
    data = TensorDataset(torch.from_numpy(array), torch.arange(len(array)) % CLASSES)
    sampler = BatchSampler(RandomSampler(data) if shuffled else SequentialSampler(data), 256, drop_last=True)
    loader = torch.utils.data.DataLoader(data, sampler=sampler, batch_size=None)
    model = torch.nn.Linear(SAMPLE, CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    while True:
        for samples, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(samples), labels).backward()
            optimizer.step()
            yield samples.nbytes


def touch(array: Array) -> dict[str, float]:
    """Read random pages; return median and 99th percentile of the reads that were page faults: those of more than 5 us."""
    bytes_of, random, times = array.reshape(-1).view("uint8"), np.random.default_rng(3), []
    for at in random.integers(0, array.nbytes // PAGE, TOUCHES) * PAGE:
        start = time.perf_counter_ns()
        bytes_of[at]
        times.append((time.perf_counter_ns() - start) / 1000)
    faults = sorted(each for each in times if each > 5.0)
    if not faults:
        return {"faults": 0}
    median, p99 = (round(faults[len(faults) * share // 100], 1) for share in (50, 99))
    return {"faults": len(faults), "median_us": median, "p99_us": p99}


WORKLOADS: dict[str, Callable[[Array], Iterator[int]]] = {
    "numpy_read": numpy_read,
    "numpy_write": numpy_write,
    "torch_ordered": lambda array: torch_batches(array, shuffled=False),
    "torch_shuffled": lambda array: torch_batches(array, shuffled=True),
}


def on_donors(region: Any) -> bool:
    """Return whether donors have the pages of a region that are not resident."""
    if region is None:
        return True
    found = region.statistics()
    return bool(found["remote_pages"] >= MOSTLY * (region.size // PAGE - found["resident_pages"]))


def measured(work: Iterator[int], size: int, seconds: float, region: Any) -> float:
    """Return MiB per second after the first passes; these end after some time where they are slow."""
    done, deadline = 0, time.monotonic() + MOST_WARM_S
    while time.monotonic() < deadline and (done < WARM_PASSES * size or not on_donors(region)):
        done += sum(next(work) for _ in range(WARM_STEPS))
    done, start = 0, time.monotonic()
    while time.monotonic() - start < seconds:
        done += next(work)
    return done / (time.monotonic() - start) / (1 << 20)


def anonymous_kib() -> int:
    """Return the anonymous memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))


def main() -> None:
    """Run one program and print its results."""
    options: dict[str, Any] = json.loads(sys.argv[1])
    columns = SAMPLE if options["workload"].startswith("torch") else COLUMNS
    if options["workload"].startswith("torch"):
        import torch  # noqa: F401 - before its memory is locked
    lock_what_is_here()
    before = anonymous_kib()
    with ExitStack() as stack:
        array, region = memory(options, ((options["mib"] << 20) // (4 * columns), columns), stack)
        filled(array)
        found: dict[str, Any] = {}
        if options["workload"] == "touch":
            deadline = time.monotonic() + MOST_WARM_S
            while not on_donors(region) and time.monotonic() < deadline:
                filled(array)
            found |= touch(array)
        else:
            work = WORKLOADS[options["workload"]](array)
            found["mib_per_s"] = round(measured(work, array.nbytes, options["seconds"], region), 1)
        if region is not None:
            found["region"] = region.statistics()
        found["before_kib"] = before
        print(json.dumps(found), flush=True)
        del array


if __name__ == "__main__":
    main()
