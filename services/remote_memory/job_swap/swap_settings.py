"""The configuration of jobs' swap on a node: a JSON file that only root can read.

disk               folder on local disk for the copies of pages (of all pages where no donor has them); no tmpfs
donors             addresses of donors, host:port; default: none
near               those of the donors that are preferred; default: "topology", those under this node's leaf switch (leaf_donors.py)
service_key_file   file with the service's key, mode 0600; needed with donors
munge              whether this node proves its user to donors by munge; default false
keys               which jobs get a key for regions of their own: "requests" (default, those with a request) or "all"
slab_mib           size of a slab, the same as that of the donors; default 64
most_mib           bound of one job's swap on this node; default 65536
most_jobs          jobs with a swap at the same time; default 1: the kernel spreads the pages of all jobs over all swap devices
zram_mib           size of a device in compressed memory that is filled first; default 0: none
requests           folder with a file for each job, named by its id, that contains the request; default: none
request_variable   the prolog's variable that contains the request otherwise; default SLURM_JOB_EXTRA
control            root of the control folders, where the use of each job is published, "" for none; default: that of tiresias.toml
run                folder for locks and logs, on a tmpfs; default /run/tiresias/remote-memory
cgroups            patterns of the memory cgroup of a job; {job} is its id; default: those of Slurm's cgroup plugins
start_timeout_s    bound of the prolog's wait; default 15
swap_off_timeout_s bound of swapoff, after which the pages are given up; default 30
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tiresias.protocol import site_configuration
from tiresias.protocol.remote_memory_use import NODE_FOLDER
from tiresias.services.remote_memory.job_swap.job_cgroup import PATTERNS
from tiresias.services.wire.private_configuration import ConfigurationValues, read_values

VARIABLE = "SLURM_JOB_EXTRA"
BY_TOPOLOGY = "topology"
_TEXTS = {"run": NODE_FOLDER, "requests": "", "request_variable": VARIABLE, "service_key_file": ""}
_WHOLE = ("most_mib", "most_jobs", "zram_mib", "slab_mib")
_SECONDS = {"start_timeout_s": 15.0, "swap_off_timeout_s": 30.0}
KEYS = ("disk", "donors", "near", "cgroups", "control", "munge", "keys", *_TEXTS, *_WHOLE, *_SECONDS)


class SwapSettings(NamedTuple):
    """A checked configuration; see the module for the keys."""

    disk: Path
    donors: tuple[str, ...]
    cgroups: tuple[str, ...]
    run: Path
    requests: Path | None
    request_variable: str
    service_key_file: Path | None
    most_bytes: int
    most_jobs: int
    zram_bytes: int
    slab_bytes: int
    control: Path | None
    munge: bool
    keys: str
    near: tuple[str, ...] | None  # None: by Slurm's topology
    start_timeout_s: float
    swap_off_timeout_s: float


def read_swap_settings(path: Path) -> SwapSettings:
    """Read the configuration.

    Raises:
        UsageError: The file, a key or a value is wrong; one line that names it.
    """
    values = read_values(path, KEYS)
    with values.errors_named():
        return _checked(values)


def _checked(values: ConfigurationValues) -> SwapSettings:
    texts = {key: values.text(key, default) for key, default in _TEXTS.items()}
    donors = values.texts("donors")
    if donors and not texts["service_key_file"]:
        raise ValueError("service_key_file is missing; donors need it")
    return SwapSettings(
        Path(values.text("disk")),
        donors,
        values.texts("cgroups", PATTERNS),
        Path(texts["run"]),
        Path(texts["requests"]) if texts["requests"] else None,
        texts["request_variable"],
        Path(texts["service_key_file"]) if donors else None,
        values.whole("most_mib", 65536) << 20,
        values.whole("most_jobs", 1),
        values.whole("zram_mib", 0, least=0) << 20,
        values.whole("slab_mib", 64) << 20,
        Path(control) if (control := values.text("control", str(site_configuration.control_root()))) else None,
        values.flag("munge"),
        values.choice("keys", ("requests", "all")),
        _near(values, donors),
        *(values.seconds(key, default, 0.1, 600) for key, default in _SECONDS.items()),
    )


def _near(values: ConfigurationValues, donors: tuple[str, ...]) -> tuple[str, ...] | None:
    if values.value("near", BY_TOPOLOGY) == BY_TOPOLOGY:
        return None
    near = values.texts("near")
    if others := set(near) - set(donors):
        raise ValueError(f"near: {min(others)} is none of the donors")
    return near
