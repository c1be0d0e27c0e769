"""The utilisation of the job's GPUs by NVIDIA's dcgm-exporter, where one answers on this node: for jobs that have no NVML.

The exporter prints a line for each GPU, in the text format of Prometheus:

    DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52",device="nvidia0",...} 42

The job's GPUs are those in CUDA_VISIBLE_DEVICES where these are UUIDs, else those in SLURM_JOB_GPUS, which are numbers of the node.
Any user's program can listen on the port while no exporter does. So the answer is bounded, and what does not have this form is no
measurement. MIG devices are not measured.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator, Mapping

from tiresias.protocol.gpu_activity import DCGM, MOST_GPUS
from tiresias.wrappers.gpu_activity.meters import MeterUnavailable

PORT = 9400  # of dcgm-exporter, by default
TIMEOUT_S = 2.0
MOST_BYTES = 4 << 20
_LINE = re.compile(r"^DCGM_FI_DEV_GPU_UTIL\{([^{}\n]{1,4000})\} (\d{1,3})(?:\.\d{1,9})?(?= |$)", re.MULTILINE)
_LABEL = re.compile(r'(\w{1,40})="([^"\\\n]{0,200})"')
_NUMBERS = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?")


class DcgmMeter:
    """Measures the job's GPUs on this node.

    Args:
        env: The job's environment.
        port: The exporter's.

    Raises:
        MeterUnavailable: No exporter answers, or it does not list all of the job's GPUs.
    """

    source = DCGM

    def __init__(self, env: Mapping[str, str], port: int = PORT) -> None:
        self._port = port
        visible = [name for name in env.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.startswith("GPU-")]
        self._gpus = visible[:MOST_GPUS] or list(_numbers(env.get("SLURM_JOB_GPUS", "")))[:MOST_GPUS]
        if not self._gpus:
            raise MeterUnavailable("the job's GPUs are not known")
        self.use()

    def use(self) -> list[float]:
        """Return the utilisation of each GPU, 0 to 1. Raises MeterUnavailable."""
        found = utilisation(self._metrics())
        if missing := [gpu for gpu in self._gpus if gpu not in found]:
            raise MeterUnavailable(f"dcgm-exporter does not list GPU {missing[0]}")
        return [found[gpu] for gpu in self._gpus]

    def _metrics(self) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            text = answer.read(MOST_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            raise MeterUnavailable(f"dcgm-exporter: {error}") from None
        finally:
            connection.close()
        if answer.status != http.client.OK or len(text) > MOST_BYTES:
            raise MeterUnavailable("port 9400 does not answer as dcgm-exporter does")
        return text.decode(errors="replace")


def utilisation(metrics: str) -> dict[str, float]:
    """Return the utilisation, 0 to 1, of each whole GPU by its number and by its UUID."""
    found = dict[str, float]()
    for line in _LINE.finditer(metrics):
        labels = dict(_LABEL.findall(line[1]))
        if "GPU_I_ID" not in labels:
            names = (labels.get("gpu", ""), labels.get("UUID", ""))
            found |= dict.fromkeys(filter(None, names), min(int(line[2]), 100) / 100.0)
    return found


def _numbers(text: str) -> Iterator[str]:
    """Yield the numbers of "0,2-3"; nothing where there is anything else."""
    parts = [_NUMBERS.fullmatch(part) for part in text.split(",")]
    for part in parts if all(parts) else ():
        if part is not None:
            yield from map(str, range(int(part[1]), int(part[2] or part[1]) + 1))
