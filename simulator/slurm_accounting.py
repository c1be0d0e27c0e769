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
_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_GPUS = re.compile(r"gpu(?::[\w.-]+)?:(\d+)")


def history(
    since: str,
    partitions: Sequence[str],
    *,
    equal_nodes: bool = False,
    of: str = "",
    size: ClusterSize | None = None,
) -> tuple[Trace, ClusterSize]:
    """Read the jobs that requested GPUs, and the GPUs of the cluster.

    Args:
        since: Begin of the history, in the form of sacct's -S, such as now-90days.
        partitions: Only jobs and nodes of these partitions; empty: of all.
        equal_nodes: Refuse nodes with different numbers of GPUs.
        of: Name of another cluster with the same slurmdbd; "": the local one.
        size: The size of that cluster; None: as its slurmctld reports it.

    Returns:
        The jobs, and the size of the cluster.

    Raises:
        UsageError: There is no accounting, or no GPU, or nodes are not equal.
        TiresiasError: Slurm does not answer.
    """
    machine = size or cluster(partitions, equal_nodes=equal_nodes, of=of)
    words = [*COMMAND.split(), since, *_of_cluster(of)]
    table = _of_sacct([*words, f"--partition={','.join(partitions)}"] if partitions else words, since)
    with tempfile.NamedTemporaryFile(prefix="sacct-", suffix=".txt") as file:
        file.write(table)
        file.flush()
        return read_trace(Path(file.name), machine.gpus), machine


def _of_cluster(name: str) -> list[str]:
    """Return the option of sacct and scontrol for another cluster. Raises UsageError where it cannot be a name."""
    if name and not _CLUSTER.fullmatch(name):
        raise UsageError(f"--cluster {name[:40]!r}: name one cluster, as `sacctmgr show cluster` prints it")
    return [f"--clusters={name}"] if name else []


def cluster(partitions: Sequence[str], *, equal_nodes: bool = False, of: str = "") -> ClusterSize:
    """Return the size of a cluster; `of` as for `history`. Unequal nodes become single GPUs, which is equal where jobs may be
    placed anywhere, or are refused."""
    lines = _output(["scontrol", *_of_cluster(of), "show", "node", "-o"]).decode(errors="replace").splitlines()
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


def _advice(words: Sequence[str]) -> str:
    """Return what to do where one of Slurm's commands fails."""
    name = next((word.removeprefix("--clusters=") for word in words if word.startswith("--clusters=")), "")
    if not name:
        return "is slurmdbd up, and slurmctld?"
    size = ", or give its size by --nodes and --gpus-per-node" if words[0] == "scontrol" else ""
    return f"is cluster {name} one of `sacctmgr show cluster`, and does it answer?{size}"


def _of_sacct(words: list[str], since: str) -> bytes:
    try:
        return _output(words)
    except TiresiasError as error:
        if "Invalid time specification" not in str(error):
            raise
        raise UsageError(
            f"--since {since[:40]!r}: sacct takes no such time; give one such as now-90days or 2026-11-01"
        ) from None


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
        raise TiresiasError(f"{words[0]}: {error[-1] if error else 'failed'}; {_advice(words)}")
    return done.stdout
