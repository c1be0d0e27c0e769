"""The configuration of the manager: a JSON file.

manager        its id: 1 to 32 letters and digits; it is part of the names of its Slurm jobs
state          folder of the journal and the lease, for this user alone; shared between the hosts of leader and standby
listen         host:port for agents; port 0 takes a free one
registration   host:port for registrations
publish        file that gets {"address", "registration", "uid", "pid"} of the manager that leads; agents read it
announce       folder in which aggregator N announces its address: N.json
script         batch script that starts an aggregator; its argument is the number
service_key_file  file with the key of the service, mode 0600; the aggregators have the same
budget         the most Slurm jobs of aggregators at any time; 0: no new jobs
per_user, per_account   limits of what one user or one Slurm account may use of it (use_limits.py); default: none
partition, qos, account, cpus, memory_mib    of these Slurm jobs; optional
job_memory_mib bound of one job's tensors on one aggregator; default 4096
report         folder in which the manager reports what it does (protocol/service_report.py); optional
report_group   the group that sees all jobs there; the service account has to be in it. Default: none
lease_s        silence after which the standby leads; default 15
period_s       seconds between two scalings; default 600
poll_s         seconds between two polls of Slurm's queue; default 2
drain_s        seconds after which an aggregator ends that Slurm requests back, with or without its tensors; default 60
watch_s        seconds between two polls for jobs of higher priority that wait for its node; 0: none; default 30
silence_s      a job without any message and update for so long is removed; default 900
protect        "mac": frames of agents are protected against changes on their way, as at aggregators; default "none"
"""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from tiresias.errors import UsageError
from tiresias.services.parameter_service.manager.use_limits import UNLIMITED_USE, UseLimits, parsed_limits
from tiresias.services.wire.frame_guard import PROTECT_MAC, PROTECT_NONE

_NOT_NEGATIVE = ("budget", "memory_mib", "watch_s")
_POSITIVE = ("cpus", "job_memory_mib", "lease_s", "period_s", "poll_s", "drain_s", "silence_s")


@dataclass(frozen=True)
class ManagerSettings:
    """A checked configuration; the fields are the keys of the file."""

    manager: str
    state: Path
    listen: str
    registration: str
    publish: Path
    announce: Path
    script: Path
    service_key_file: Path
    budget: int
    per_user: UseLimits = UNLIMITED_USE
    per_account: UseLimits = UNLIMITED_USE
    partition: str = ""
    qos: str = ""
    account: str = ""
    cpus: int = 1
    memory_mib: int = 0
    job_memory_mib: int = 4096
    report: str = ""
    report_group: str = ""
    lease_s: float = 15.0
    period_s: float = 600.0
    poll_s: float = 2.0
    drain_s: float = 60.0
    watch_s: float = 30.0
    silence_s: float = 900.0
    protect: str = PROTECT_NONE


def read_manager_settings(path: Path) -> ManagerSettings:
    """Read the configuration.

    Raises:
        UsageError: The file, a key or a value is wrong; one line that names it.
    """
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from None
    known = {each.name: each for each in fields(ManagerSettings)}
    if not isinstance(content, dict) or (unknown := content.keys() - known.keys()):
        names = ", ".join(sorted(unknown)) if isinstance(content, dict) else "no JSON object"
        raise UsageError(f"{path}: unknown key {names}; allowed: {', '.join(known)}")
    if missing := [name for name, each in known.items() if each.default is MISSING and name not in content]:
        raise UsageError(f"{path}: the key {missing[0]} is missing")
    return ManagerSettings(
        **{name: _checked(path, name, str(known[name].type), value) for name, value in content.items()}
    )


def _checked(path: Path, name: str, kind: str, value: Any) -> Any:
    if kind == "UseLimits":
        return parsed_limits(value, lambda problem: UsageError(f"{path}: {name}: {problem}"))
    if kind in ("str", "Path"):
        if not isinstance(value, str) or not value:
            raise UsageError(f"{path}: {name} is no text")
        if name == "protect" and value not in (PROTECT_NONE, PROTECT_MAC):
            raise UsageError(f"{path}: {name} is {PROTECT_NONE} or {PROTECT_MAC}")
        return Path(value) if kind == "Path" else value
    if isinstance(value, bool) or not isinstance(value, int if kind == "int" else (int, float)):
        raise UsageError(f"{path}: {name} is no {'whole ' if kind == 'int' else ''}number")
    if not 0 <= value < float("inf") or (name in _POSITIVE and value == 0):
        raise UsageError(f"{path}: {name} = {value}; give {'0 or more' if name in _NOT_NEGATIVE else 'more than 0'}")
    return value
