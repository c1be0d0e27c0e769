"""The local cluster as Slurm reports it: its accounting as a trace, and its GPUs. Reads only."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tiresias.errors import TiresiasError, UsageError
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.formats.sacct_table import COMMAND
from tiresias.simulator.trace import Trace, read_trace

COMMAND_TIMEOUT_S = 600.0  # sacct of a year of a busy site takes minutes
_KEPT = ("PATH", "HOME", "SLURM_CONF")
_GPUS = re.compile(r"gpu(?::[\w.-]+)?:(\d+)")


def history(since: str, partitions: Sequence[str], *, equal_nodes: bool = False) -> tuple[Trace, ClusterSize]:
    """Read the jobs that requested GPUs, and the GPUs of the cluster.

    Args:
        since: Begin of the history, in the form of sacct's -S, such as now-90days.
        partitions: Only jobs and nodes of these partitions; empty: of all.
        equal_nodes: Refuse nodes with different numbers of GPUs.

    Returns:
        The jobs, and the size of the cluster.

    Raises:
        UsageError: There is no accounting, or no GPU, or nodes are not equal.
        TiresiasError: Slurm does not answer.
    """
    machine = cluster(partitions, equal_nodes=equal_nodes)
    words = [*COMMAND.split(), since]
    table = _output([*words, f"--partition={','.join(partitions)}"] if partitions else words)
    with tempfile.NamedTemporaryFile(prefix="sacct-", suffix=".txt") as file:
        file.write(table)
        file.flush()
        return read_trace(Path(file.name), machine.gpus), machine


def cluster(partitions: Sequence[str], *, equal_nodes: bool = False) -> ClusterSize:
    """Return the size of the cluster. Unequal nodes become single GPUs, which is equal where jobs may be placed anywhere, or are
    refused."""
    lines = _output(["scontrol", "show", "node", "-o"]).decode(errors="replace").splitlines()
    nodes = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in lines]
    selected = [
        node for node in nodes if not partitions or set(node.get("Partitions", "").split(",")) & set(partitions)
    ]
    gpus = [sum(map(int, _GPUS.findall(node.get("Gres", "")))) for node in selected]
    return cluster_size([count for count in gpus if count], partitions, equal_nodes=equal_nodes)


def cluster_size(gpus: Sequence[int], partitions: Sequence[str] = (), *, equal_nodes: bool = False) -> ClusterSize:
    """Return the size of a cluster whose nodes have so many GPUs each. Raises UsageError as `cluster`."""
    where = f" in {','.join(partitions)}" if partitions else ""
    if not gpus:
        raise UsageError(f"no node{where} has a GPU; name the TRACE, --nodes and --gpus-per-node")
    sizes = sorted(set(gpus))
    if len(sizes) == 1:
        return ClusterSize(len(gpus), sizes[0])
    if equal_nodes:
        several = ", ".join(map(str, sizes))
        raise UsageError(
            f"the nodes{where} have {several} GPUs; cells need equal nodes: name a --partition of such nodes"
        )
    return ClusterSize(sum(gpus), 1)


def _output(words: list[str]) -> bytes:
    environment = {name: value for name, value in os.environ.items() if name in _KEPT} | {"LC_ALL": "C"}
    try:
        done = subprocess.run(words, capture_output=True, timeout=COMMAND_TIMEOUT_S, env=environment, check=False)
    except FileNotFoundError:
        raise UsageError(f"{words[0]} is not in PATH: run this where Slurm's commands are, or name the TRACE") from None
    except subprocess.TimeoutExpired:
        raise TiresiasError(
            f"{words[0]}: no answer within {COMMAND_TIMEOUT_S:g} s; ask for less with --since"
        ) from None
    if done.returncode:
        error = done.stderr.decode(errors="replace").strip().splitlines()
        raise TiresiasError(f"{words[0]}: {error[-1] if error else 'failed'}; is slurmdbd up, and slurmctld?")
    return done.stdout
