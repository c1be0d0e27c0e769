"""TIRESIAS_REMOTE_MEM (`tsbatch --remote-mem=N[:node|:task]`): memory beyond --mem that other nodes lend to the job.

sbatch gets it as two options. `--extra=remote-mem=N` is read by the prolog of each node, which starts the swap of the job there
(services/remote_memory/job_swap). The licence remote_memory holds the sum of all nodes: Slurm counts and limits it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tiresias.errors import UsageError
from tiresias.protocol import environment
from tiresias.protocol.remote_memory_license import LICENSE, option

OPTION = "--remote-mem"
_SIZE = re.compile(r"([1-9]\d{0,8})([KMGT]?)(?::(node|task))?", re.ASCII | re.IGNORECASE)
_KIB = {"K": 1, "": 1 << 10, "M": 1 << 10, "G": 1 << 20, "T": 1 << 30}
_NUMBER = re.compile(r"[1-9]\d{0,6}", re.ASCII)


def check(env: Mapping[str, str]) -> None:
    """Raise UsageError for a size that cannot be read."""
    text = env.get(environment.REMOTE_MEMORY, "")
    if text and not _SIZE.fullmatch(text):
        raise UsageError(
            f"{OPTION}={text!r:.40} is not possible; state a size above 0 for each node or task, such as 64G or 8G:task"
        )


def check_left_alone(env: Mapping[str, str], reason: str) -> None:
    """Raise UsageError where the job is left to sbatch as it is: nothing would request the memory."""
    if env.get(environment.REMOTE_MEMORY) and reason:
        raise UsageError(f"{OPTION} is not possible: the job would be left to sbatch as it is: {reason}; leave one out")


def options(env: Mapping[str, str], asked: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options of sbatch that request the memory, which count after the user's own; () without a request.

    Args:
        env: The environment of the submission.
        asked: The submit options.

    Raises:
        UsageError: The number of nodes, or of tasks on each, is not known before the start.
    """
    found = _SIZE.fullmatch(env.get(environment.REMOTE_MEMORY, ""))
    if not found:
        return ()
    if env.get(environment.ELASTIC):
        raise UsageError(f"{OPTION} contradicts --elastic: the memory is requested for a fixed number of nodes")
    nodes = _nodes(asked)
    kib = int(found[1]) * _KIB[found[2].upper()] * (_tasks(asked, nodes) if (found[3] or "").lower() == "task" else 1)
    mib = -(-kib // 1024)
    request, license_ = f"remote-mem={mib}M", option(mib * nodes)
    return f"--extra={_joined(asked, 'extra', request)}", f"--licenses={_joined(asked, 'licenses', license_, 'L')}"


def not_submitted(chosen: tuple[str, ...]) -> str:
    """Return the line for a job that sbatch refused with these options."""
    return (
        f"not submitted with {' '.join(chosen)}: {OPTION} needs Licenses={LICENSE}:N in slurm.conf, of which N is at least "
        "what the job requests, in GiB"
    )


def _nodes(asked: Mapping[str, str]) -> int:
    least, _, most = next((asked[name] for name in ("nodes", "N") if name in asked), "").partition("-")
    if _NUMBER.fullmatch(least) and most in ("", least):
        return int(least)
    alone = not least and _number(asked, "ntasks", "n") == 1 and _number(asked, "gpus") == 1
    if not alone:
        raise UsageError(f"{OPTION} is counted for each node: state their number, such as --nodes=2")
    return 1


def _tasks(asked: Mapping[str, str], nodes: int) -> int:
    by_node = _number(asked, "ntasks-per-node", "tasks-per-node", default=0)
    count = by_node or (_number(asked, "ntasks", "n") if nodes == 1 else 0)
    if not count:
        raise UsageError(f"{OPTION}=N:task needs the tasks of each node: state --ntasks-per-node, or write N:node")
    return count


def _number(asked: Mapping[str, str], *names: str, default: int = 1) -> int:
    """Return a number of the request, without a GPU type before it; 0 for what is no number."""
    text = next((asked[name] for name in names if name in asked), str(default)).rpartition(":")[2]
    return int(text) if _NUMBER.fullmatch(text) else 0


def _joined(asked: Mapping[str, str], name: str, added: str, letter: str = "") -> str:
    """Return an option's value with what the user states, too."""
    own = asked.get(name) or asked.get(letter, "")
    if "|" in own and name == "licenses":
        raise UsageError(f"{OPTION} adds a licence, and --licenses={own:.40} has alternatives (|); state one of them")
    return f"{own},{added}" if own else added
