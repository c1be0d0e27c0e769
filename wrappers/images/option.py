"""`tsbatch --checkpoint=dmtcp` and `=criu` (TIRESIAS_CHECKPOINT): which jobs can be dumped as an image."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tiresias.errors import UsageError
from tiresias.protocol import environment

OPTION, DMTCP = "--checkpoint", "dmtcp"
TOOLS = {DMTCP: "DMTCP", "criu": "CRIU"}  # name in the option and of the module (image_place.py) -> name in messages
NOT_PREEMPTED = (
    "the script runs and is not preempted: "  # begins the line in the log of a job whose tool does not work on its node
)
_LAUNCHERS = re.compile(rb"(?:^|[\s;|&(])(srun|tsrun|mpirun|mpiexec)(?=\s)")


def is_chosen(env: Mapping[str, str]) -> bool:
    """Whether the job is to be saved as an image."""
    return env.get(environment.CHECKPOINT) in TOOLS


def check_request(env: Mapping[str, str], asked: Mapping[str, str], script: bytes) -> None:
    """Raise UsageError where an image cannot hold the whole job: several nodes, or processes that Slurm starts.

    Args:
        env: The environment of the submission.
        asked: The submit options.
        script: The user's script.
    """
    if not is_chosen(env):
        return
    chosen = f"{OPTION}={env[environment.CHECKPOINT]}"
    nodes = asked.get("nodes") or asked.get("N") or "1"
    if nodes not in ("1", "1-1"):
        raise UsageError(f"{chosen} is for programs on one node, and the job requests {nodes}: use --nodes=1")
    code = b"\n".join(line for line in script.split(b"\n") if not line.lstrip().startswith(b"#"))
    if found := _LAUNCHERS.search(code):
        raise UsageError(
            f"{chosen} cannot dump what {found[1].decode()} starts: start the program in the script without it"
        )
