"""The configuration of an agent: the job file, and the rank and run of this process.

The job file is JSON with mode 0600, because it contains the job's key:

    job          the job's name in the service
    key          64 hexadecimal digits
    aggregators  addresses, host:port, on which tensors are placed
    tensors      addresses of single tensors by name, where they differ; optional
    manager      in place of aggregators: the file that the manager publishes, which places the tensors (register.py writes it)
    servers      parameter servers that the job declared to the manager
    compress     how gradients and parameters are compressed on their way, as the job is registered: "none" or "shuffle-zlib"
    run          how often its programs were started; without it Slurm's restart count is the number of the run
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tiresias.errors import UsageError
from tiresias.protocol.environment import PARAMETER_SERVICE
from tiresias.services.wire.shuffled_payload import COMPRESS_NONE, COMPRESSIONS

_RUNS_OF_A_JOB = 1000  # restarts by torchrun within one start of the job's programs


class ServiceJob(NamedTuple):
    """This process in its job.

    Attributes:
        file: The job file; it is read again when an aggregator cannot be reached.
        name: The job's name.
        key: The job's key.
        rank: The rank of this process.
        run: How often the job was started before.
        compress: "none" or "shuffle-zlib": wire/shuffled_payload.py.
    """

    file: Path
    name: str
    key: bytes
    rank: int
    run: int
    compress: str = COMPRESS_NONE


def service_job(environment: Mapping[str, str] | None = None) -> ServiceJob:
    """Return this process's job from the environment: TIRESIAS_PARAMETER_SERVICE, and the rank of torchrun or srun.

    Raises:
        UsageError: The variable or the file is missing or wrong; one line.
    """
    env = os.environ if environment is None else environment
    if not env.get(PARAMETER_SERVICE):
        raise UsageError(f"{PARAMETER_SERVICE} is not set: it names the job file of the parameter service")
    file = Path(env[PARAMETER_SERVICE])
    content = read_job_file(file)
    rank = int(env.get("RANK", env.get("SLURM_PROCID", "0")))
    started = int(content.get("run", env.get("SLURM_RESTART_COUNT", "0")))
    run = started * _RUNS_OF_A_JOB + int(env.get("TORCHELASTIC_RESTART_COUNT", "0"))
    return ServiceJob(file, content["job"], bytes.fromhex(content["key"]), rank, run, content["compress"])


def read_job_file(file: Path) -> dict[str, Any]:
    """Read and check a job file.

    Raises:
        UsageError: It cannot be read, is readable by other users, or is no job file.
    """
    try:
        with file.open() as opened:
            mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            content = json.load(opened)
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: {error}") from error
    if mode & 0o077:
        raise UsageError(f"{file}: other users can read or change it; it contains a key: chmod 600 {file}")
    if not _is_job_file(content):
        raise UsageError(
            f"{file}: no job file: it has job, key (64 hexadecimal digits), and aggregators (addresses) or manager and servers"
        )
    if content.setdefault("compress", COMPRESS_NONE) not in COMPRESSIONS:
        raise UsageError(f"{file}: compress is {' or '.join(COMPRESSIONS)}; the job was registered by another release")
    return dict(content)


def _is_job_file(content: Any) -> bool:
    try:
        bytes.fromhex(content["key"])
        if type(content.get("run", 0)) is not int:
            return False
        if "manager" in content:
            return isinstance(content["manager"], str) and type(content["servers"]) is int and content["servers"] > 0
        addresses = [*content["aggregators"], *content.get("tensors", {}).values()]
        return bool(content["aggregators"]) and all(isinstance(each, str) for each in [content["job"], *addresses])
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
