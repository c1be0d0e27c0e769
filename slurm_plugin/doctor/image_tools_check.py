"""Which tools can dump programs without checkpoints (docs/how-to/dmtcp.md) on the host where this runs, in a process of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence

from tiresias.slurm_plugin.backends import processes
from tiresias.slurm_plugin.backends.interface import SlurmUnavailable
from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine

MODULE = (sys.executable, "-m", "tiresias.wrappers.images.tools_on_node")
TIMEOUT_S = 60.0
_ABOUT = "image tools"
_ON_NODES = "for a node: srun tiresias doctor --node"
_REMEDY = "DMTCP 4 or CRIU 4 on the nodes, for tsbatch --checkpoint=dmtcp or =criu (docs/how-to/dmtcp.md)"


def finding(here_only: bool, command: Sequence[str] = MODULE) -> Finding:
    """Check this host.

    Args:
        here_only: It is the node in question; else nodes may differ from it, and the finding names the command for them.
        command: Prints the tools.
    """
    try:
        done = processes.run(command, TIMEOUT_S)
        found = json.loads(done.stdout)
        words = "; ".join(_tool(name, tool) for name, tool in found.items())
        works = any(not tool["missing"] for tool in found.values())
    except (SlurmUnavailable, ValueError, KeyError, TypeError, AttributeError) as error:
        return Finding(Level.ADVICE, _ABOUT, f"not checked: {error}", _REMEDY)
    words = f"{os.environ.get('SLURMD_NODENAME') or os.uname().nodename}: {words}"
    words += "" if here_only else f" ({_ON_NODES})"
    return fine(_ABOUT, words) if works else Finding(Level.ADVICE, _ABOUT, words, _REMEDY)


def _tool(name: str, tool: Mapping[str, str]) -> str:
    version = f"{name} {tool['version']}".strip()
    return f"{version} cannot be used: {tool['missing']}" if tool["missing"] else f"{version} works"
