"""The utilisation of the job's GPUs by NVML, NVIDIA's management library, which comes with the driver (libnvidia-ml.so.1).

It is called through ctypes: no package is needed. NVML lists the GPUs that this process may open: where Slurm constrains devices,
those of the job. Of several jobs' GPUs those in CUDA_VISIBLE_DEVICES count, as indexes or UUIDs. MIG devices have no utilisation.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping

from tiresias.protocol.gpu_activity import MOST_GPUS, NVML
from tiresias.wrappers.gpu_activity.meters import MeterUnavailable

LIBRARY = "libnvidia-ml.so.1"
_VISIBLE = "CUDA_VISIBLE_DEVICES"


class _Utilization(ctypes.Structure):
    """nvmlUtilization_t: percent of the time, in the last sample period of the driver."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    """nvmlMemory_t: bytes."""

    _fields_ = tuple((name, ctypes.c_ulonglong) for name in ("total", "free", "used"))


class NvmlMeter:
    """Measures the job's GPUs on this node.

    Args:
        env: The job's environment.
        library: The shared library.

    Raises:
        MeterUnavailable: The library is missing or cannot measure all of the job's GPUs.
    """

    source = NVML

    def __init__(self, env: Mapping[str, str], library: str = LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise MeterUnavailable(str(error)) from None
        self._call("nvmlInit_v2")
        self._gpus = list(self._devices(env.get(_VISIBLE, "")))
        if not self._gpus:
            raise MeterUnavailable("NVML lists no GPU")
        self.use()

    def use(self) -> list[float]:
        """Return the utilisation of each GPU, 0 to 1. Raises MeterUnavailable."""
        return [self._utilization(gpu) for gpu in self._gpus]

    def bytes_used(self) -> int:
        """Return the memory in use on these GPUs, by all processes. Raises MeterUnavailable."""
        found = _Memory()
        used = 0
        for gpu in self._gpus:
            self._call("nvmlDeviceGetMemoryInfo", gpu, ctypes.byref(found))
            used += int(found.used)
        return used

    def _devices(self, visible: str) -> Iterator[ctypes.c_void_p]:
        names = [name.strip() for name in visible.split(",") if name.strip()]
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        for name in names[:MOST_GPUS] or map(str, range(min(count.value, MOST_GPUS))):
            gpu = ctypes.c_void_p()
            if name.isascii() and name.isdigit():
                self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(int(name[:9])), ctypes.byref(gpu))
            else:
                self._call("nvmlDeviceGetHandleByUUID", name.encode(), ctypes.byref(gpu))
            yield gpu

    def _utilization(self, gpu: ctypes.c_void_p) -> float:
        found = _Utilization()
        self._call("nvmlDeviceGetUtilizationRates", gpu, ctypes.byref(found))
        return min(int(found.gpu), 100) / 100.0

    def _call(self, name: str, *arguments: object) -> None:
        function = getattr(self._library, name, None)
        if function is None or function(*arguments):
            raise MeterUnavailable(f"{name} failed")
