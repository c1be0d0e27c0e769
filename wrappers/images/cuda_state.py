"""The CUDA state of a program's processes, moved between GPUs and host memory by the calls of the driver.

CUDA driver API, "CUDA Checkpointing", driver 570 or later, through ctypes: no package is needed. A suspended process refers to no
GPU, so that CRIU can dump it; its calls of CUDA wait until it is resumed. Another GPU at the restore takes driver 580, and a GPU of
the same type.

    suspend(pids, file)    all of them or none; the file gets the GPUs that this process can use
    resume(pids, file)     the processes that are suspended
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tiresias.errors import TiresiasError
from tiresias.wrappers.images import mapped_processes

LIBRARY = "libcuda.so.1"
OLDEST = 570  # driver
LOCK_TIMEOUT_MS = 30_000  # for the work that is on the GPU already
MOST_GPUS, UUID_BYTES, ARGUMENT_BYTES = 64, 16, 64
_NONE, _RUNNING, _LOCKED, _SUSPENDED = -1, 0, 1, 2  # CUprocessState


class CudaRefused(TiresiasError):
    """The driver is missing or refuses a call."""


class _LockArguments(ctypes.Structure):
    _fields_ = (("timeout_ms", ctypes.c_uint), ("reserved", ctypes.c_ubyte * (ARGUMENT_BYTES - 4)))


class _GpuPair(ctypes.Structure):
    _fields_ = (("old", ctypes.c_ubyte * UUID_BYTES), ("new", ctypes.c_ubyte * UUID_BYTES))


class _RestoreArguments(ctypes.Structure):
    _fields_ = (
        ("pairs", ctypes.POINTER(_GpuPair)),
        ("count", ctypes.c_uint),
        ("reserved", ctypes.c_ubyte * (ARGUMENT_BYTES - 12)),
    )


class CudaDriver:
    """The driver's calls.

    Args:
        library: The shared library.

    Raises:
        CudaRefused: It is missing, too old, or has no GPU.
    """

    def __init__(self, library: str = LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise CudaRefused(str(error)) from None
        if not hasattr(self._library, "cuCheckpointProcessLock"):
            raise CudaRefused(f"the NVIDIA driver is older than {OLDEST}")
        self._call("cuInit", 0)

    def gpus(self) -> list[str]:
        """Return the UUIDs of the GPUs that this process can use, in their order, as hexadecimal digits. Raises CudaRefused."""
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        return [self._uuid(number) for number in range(min(count.value, MOST_GPUS))]

    def suspend(self, pids: Sequence[int]) -> None:
        """Suspend all processes that use CUDA, or none of them. Raises CudaRefused."""
        users = [pid for pid in pids if self._state(pid) == _RUNNING]
        try:
            for pid in users:
                self._call("cuCheckpointProcessLock", pid, ctypes.byref(_LockArguments(LOCK_TIMEOUT_MS)))
            for pid in users:
                self._call("cuCheckpointProcessCheckpoint", pid, None)
        except CudaRefused:
            with suppress(CudaRefused):
                self.resume(users)
            raise

    def resume(self, pids: Sequence[int], moved: Sequence[tuple[str, str]] = ()) -> int:
        """Resume the processes that are suspended; return their number. Raises CudaRefused.

        Args:
            pids: Of the program.
            moved: Of each GPU that they used the UUID, and that of the GPU which takes its place; empty: the same GPUs.
        """
        arguments, resumed = _restore_arguments(moved) if moved else None, 0
        for pid in pids:
            state = self._state(pid)
            if state == _SUSPENDED:
                self._call("cuCheckpointProcessRestore", pid, arguments and ctypes.byref(arguments))
            if state in (_LOCKED, _SUSPENDED):
                self._call("cuCheckpointProcessUnlock", pid, None)
                resumed += 1
        return resumed

    def _state(self, pid: int) -> int:
        state = ctypes.c_int()
        return _NONE if self._library.cuCheckpointProcessGetState(pid, ctypes.byref(state)) else state.value

    def _uuid(self, number: int) -> str:
        uuid = (ctypes.c_ubyte * UUID_BYTES)()
        self._call("cuDeviceGetUuid_v2", ctypes.byref(uuid), number)
        return bytes(uuid).hex()

    def _call(self, name: str, *arguments: object) -> None:
        if code := getattr(self._library, name)(*arguments):
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(text))
            raise CudaRefused(f"{name}: {(text.value or str(code).encode()).decode(errors='replace')}")


def missing(library: str = LIBRARY) -> str:
    """Return why no process can be suspended here, "" where it can."""
    try:
        CudaDriver(library)
    except CudaRefused as refused:
        return str(refused)
    return ""


def suspend(pids: Sequence[int], file: Path, library: str = LIBRARY) -> str:
    """Suspend the processes, and write this process's GPUs to a file; return why that failed, "" where it did not.

    A process that has a GPU's device open for another reason, such as NVML, cannot be dumped: then all are resumed.
    """
    try:
        driver = CudaDriver(library)
        file.write_text(json.dumps(driver.gpus()), encoding="ascii")
        driver.suspend(pids)
        if device := mapped_processes.gpu_device(list(pids)):
            driver.resume(pids)
            return f"a process has {device} open without CUDA, such as through NVML"
    except (CudaRefused, OSError) as error:
        return str(error)
    return ""


def resume(pids: Sequence[int], file: Path, library: str = LIBRARY) -> str:
    """Resume the processes on the GPUs that this process can use; return why that failed, "" where it did not.

    Args:
        pids: Of the program.
        file: What `suspend` wrote.
        library: The shared library.
    """
    try:
        driver, old = CudaDriver(library), _read(file)
        new = driver.gpus()
        if len(new) < len(old):
            return f"the program used {len(old)} GPUs, and {len(new)} are here"
        same = set(old) <= set(new)
        if not driver.resume(pids, () if same else list(zip(old, new, strict=False))):
            return "no process has a state that was taken from a GPU"
    except (CudaRefused, OSError) as error:
        return str(error)
    return ""


def _read(file: Path) -> list[str]:
    """Return the UUIDs. Raises CudaRefused."""
    try:
        found = json.loads(file.read_text(encoding="ascii"))
        if isinstance(found, list) and all(len(bytes.fromhex(uuid)) == UUID_BYTES for uuid in found):
            return found[:MOST_GPUS]
    except (OSError, ValueError, TypeError):
        pass
    raise CudaRefused(f"{file} has no list of GPUs")


def _restore_arguments(moved: Sequence[tuple[str, str]]) -> _RestoreArguments:
    pairs = (_GpuPair * len(moved))()
    for pair, uuids in zip(pairs, moved, strict=True):
        pair.old[:], pair.new[:] = (tuple(bytes.fromhex(uuid)) for uuid in uuids)
    return _RestoreArguments(pairs, len(moved))
