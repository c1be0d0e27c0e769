"""The lines of slurm.conf that the controller depends on. Pure: from what `scontrol show config` says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine

Settings = Mapping[str, str]
_SEEN_ENDED = 120  # seconds that Slurm should remember an ended job: four of the controller's usual periods
_LONG_KILL = 60


def findings(config: Settings) -> list[Finding]:
    """One for each look, in the order of what matters."""
    return [look(config) for look in _LOOKS]


def _words(config: Settings, name: str) -> list[str]:
    return [word for word in config.get(name, "").split(",") if word and word != "(null)"]


def _seconds(config: Settings, name: str) -> int:
    found = re.match(r"\d+", config.get(name, ""))
    return int(found[0]) if found else 0


def _select(config: Settings) -> Finding:
    plugin = config.get("SelectType", "")
    if plugin in ("select/cons_tres", "cons_tres"):
        return fine("SelectType", "cons_tres")
    return Finding(
        Level.BLOCKS,
        "SelectType",
        f"{plugin or 'not known'}: GPUs cannot be shared out job by job",
        "SelectType=select/cons_tres",
    )


def _gres(config: Settings) -> Finding:
    if "gpu" in _words(config, "GresTypes"):
        return fine("GresTypes", "gpu is one of them")
    return Finding(Level.BLOCKS, "GresTypes", "Slurm knows of no GPUs", "GresTypes=gpu, and Gres=gpu:N for each node")


def _requeue(config: Settings) -> Finding:
    if config.get("JobRequeue", "1") != "0":
        return fine("JobRequeue", "jobs may be requeued")
    return Finding(
        Level.RISK,
        "JobRequeue",
        "only jobs submitted with --requeue can be preempted",
        "JobRequeue=1 (tsbatch asks for it anyway)",
    )


def _shrink(config: Settings) -> Finding:
    if "disable_job_shrink" in _words(config, "SchedulerParameters"):
        return fine("disable_job_shrink", "set")
    return Finding(
        Level.RISK,
        "disable_job_shrink",
        "a pin that comes too late would shrink the job",
        "SchedulerParameters=disable_job_shrink",
    )


def _remembers(config: Settings) -> Finding:
    seconds = _seconds(config, "MinJobAge")
    if seconds >= _SEEN_ENDED:
        return fine("MinJobAge", f"{seconds} s")
    return Finding(
        Level.RISK, "MinJobAge", f"Slurm forgets an ended job after {seconds} s: while the controller restarts its end goes unseen",
        "MinJobAge=300",
    )  # fmt: skip


def _preemption(config: Settings) -> Finding:
    plugin = config.get("PreemptType", "(null)")
    if plugin in ("(null)", "preempt/none", "none"):
        return fine("PreemptType", "only we preempt")
    return Finding(
        Level.RISK, "PreemptType", f"{plugin}: Slurm preempts too, without waiting for checkpoints",
        "keep the managed partitions out of it: PreemptMode=OFF on them",
    )  # fmt: skip


def _memory(config: Settings) -> Finding:
    counts = "MEMORY" in config.get("SelectTypeParameters", "").upper()
    defaults = [config.get(name, "UNLIMITED") for name in ("DefMemPerNode", "DefMemPerCPU", "DefMemPerGPU")]
    if not counts or any(value not in ("UNLIMITED", "0", "(null)") for value in defaults):
        return fine("DefMemPer...", "a job that asks for no memory leaves some to others")
    return Finding(
        Level.ADVICE, "DefMemPer...", "a job that asks for no memory gets a node's whole, and nothing fits beside it",
        "DefMemPerCPU or DefMemPerGPU, for the managed partitions at least",
    )  # fmt: skip


def _accounted(config: Settings) -> Finding:
    if "slurmdbd" not in config.get("AccountingStorageType", ""):
        return Finding(
            Level.ADVICE, "accounting", "none: a lost state database cannot be rebuilt, and Operator rights cannot be given",
            "AccountingStorageType=accounting_storage/slurmdbd",
        )  # fmt: skip
    if "gres/gpu" in _words(config, "AccountingStorageTRES"):
        return fine("accounting", "GPUs are accounted for")
    return Finding(Level.ADVICE, "accounting", "GPUs are not accounted for", "AccountingStorageTRES=gres/gpu")


def _admission(config: Settings) -> Finding:
    if any("lua" in plugin for plugin in _words(config, "JobSubmitPlugins")):
        return fine("JobSubmitPlugins", "lua")
    return Finding(
        Level.ADVICE, "JobSubmitPlugins", "Slurm may start a job before the controller has seen it",
        "JobSubmitPlugins=lua, with etc/job_submit.lua beside slurm.conf",
    )  # fmt: skip


def _hook(config: Settings) -> Finding:
    if config.get("EpilogSlurmctld", "(null)") not in ("(null)", ""):
        return fine("EpilogSlurmctld", "set; it should call poke.sh")
    return Finding(
        Level.ADVICE, "EpilogSlurmctld",
        "no hook reports a job's end: GPUs idle for up to a period, and a job that depends on it (afterany) overtakes others",
        "EpilogSlurmctld=/etc/tiresias/poke.sh",
    )  # fmt: skip


def _launch(config: Settings) -> Finding:
    if config.get("PrologSlurmctld", "(null)") in ("(null)", ""):
        return fine("PrologSlurmctld", "none")
    return Finding(
        Level.ADVICE, "PrologSlurmctld", "a slurmctld that is stopped while it waits for it never launches that job",
        "use Prolog on the nodes where that is enough",
    )  # fmt: skip


def _kill_wait(config: Settings) -> Finding:
    seconds = _seconds(config, "KillWait")
    if seconds <= _LONG_KILL:
        return fine("KillWait", f"{seconds} s")
    return Finding(
        Level.ADVICE,
        "KillWait",
        f"a job that ignores SIGTERM keeps its GPUs for {seconds} s after it was requeued",
        "KillWait=30",
    )


_LOOKS: tuple[Callable[[Settings], Finding], ...] = (
    _select, _gres, _requeue, _shrink, _remembers, _preemption, _memory, _accounted, _admission, _hook, _launch, _kill_wait,
)  # fmt: skip


def risks(config: Settings) -> Iterator[str]:
    """What the controller warns of."""
    for found in findings(config):
        if found.level >= Level.RISK:
            yield f"{found.about}: {found.words}; {found.remedy}"
