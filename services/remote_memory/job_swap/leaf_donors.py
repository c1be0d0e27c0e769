"""The donors under the leaf switch of this node, by Slurm's topology, where the configuration does not list them.

`scontrol show topology` is called for jobs with remote memory, at most once in KEPT_S on a node: the run folder keeps the answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tiresias.protocol.job_log import log_line
from tiresias.scheduler.slurm_topology import Level, from_slurm
from tiresias.services.remote_memory.job_swap.owner_files import make_run_folder
from tiresias.services.remote_memory.job_swap.swap_settings import SwapSettings

KEPT_S = 600.0  # the topology changes when an administrator reconfigures Slurm
TIMEOUT_S = 3.0  # the prolog waits for it
_FILE = "leaf.json"


def near_donors_of(settings: SwapSettings, node: str) -> tuple[str, ...]:
    """Return the donors that are preferred: those of the configuration, else those under the leaf switch of the node.

    Args:
        settings: The node's configuration.
        node: Slurm's name of this node.
    """
    if settings.near is not None or not settings.donors:
        return settings.near or ()
    return leaf_donors(settings.donors, node, _leaf(settings.run, node))


def leaf_donors(donors: Iterable[str], node: str, leaf: Level) -> tuple[str, ...]:
    """Return the donors whose host is a node in the same group as a node.

    Args:
        donors: Their addresses, host:port. A host is Slurm's name of a node, alone or with a domain.
        node: Slurm's name of the node.
        leaf: The group of each node; nodes that no group has are near to none.
    """
    group = leaf.get(node)
    return tuple(each for each in donors if group is not None and _group_of(each, leaf) == group)


def _group_of(donor: str, leaf: Level) -> str | None:
    host = donor.rpartition(":")[0]
    return leaf.get(host, leaf.get(host.partition(".")[0]))


def _leaf(run: Path, node: str) -> Level:
    """Return the nodes under the leaf switch of a node with its name; {} where Slurm has no topology or does not answer."""
    file = run / _FILE
    with suppress(OSError, ValueError, TypeError, AttributeError):
        kept = json.loads(file.read_text())
        if kept["node"] == node and 0 <= time.time() - kept["time"] < KEPT_S:
            return dict(kept["leaf"])
    levels = from_slurm(_topology())
    group = levels[0].get(node) if levels else None
    leaf = {name: each for name, each in levels[0].items() if each == group} if group is not None else {}
    with suppress(OSError):
        make_run_folder(run)
        new = file.with_name(f".{_FILE}.{os.getpid()}")
        new.touch(mode=0o600)
        new.write_text(json.dumps({"node": node, "time": time.time(), "leaf": leaf}))
        new.rename(file)
    return leaf


def _topology() -> str:
    command = ["scontrol", "show", "topology"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False).stdout
    except FileNotFoundError:
        return ""
    except (OSError, subprocess.TimeoutExpired) as error:
        log_line(f"remote memory: no donor is preferred: scontrol show topology: {type(error).__name__}")
        return ""
