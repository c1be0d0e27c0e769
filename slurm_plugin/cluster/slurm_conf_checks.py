"""Checks of the settings in slurm.conf that the controller depends on. Pure, on the output of `scontrol show config`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine

Settings = Mapping[str, str]
_MIN_JOB_AGE_S = 120  # four of the controller's default periods
_MAX_KILL_WAIT_S = 60


def findings(config: Settings) -> list[Finding]:
    """Return one finding for each check, the most important first."""
    return [check(config) for check in _CHECKS]


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
        f"{plugin or 'not known'}: GPUs cannot be allocated job by job",
        "SelectType=select/cons_tres",
    )


def _gres(config: Settings) -> Finding:
    if "gpu" in _words(config, "GresTypes"):
        return fine("GresTypes", "contains gpu")
    return Finding(
        Level.BLOCKS, "GresTypes", "no GPUs are configured in Slurm", "GresTypes=gpu, and Gres=gpu:N for each node"
    )


def _requeue(config: Settings) -> Finding:
    if config.get("JobRequeue", "1") != "0":
        return fine("JobRequeue", "jobs may be requeued")
    return Finding(
        Level.RISK,
        "JobRequeue",
        "only jobs submitted with --requeue can be preempted",
        "JobRequeue=1 (tsbatch requests it in any case)",
    )


def _shrink(config: Settings) -> Finding:
    if "disable_job_shrink" in _words(config, "SchedulerParameters"):
        return fine("disable_job_shrink", "set")
    return Finding(
        Level.RISK,
        "disable_job_shrink",
        "a pin that arrives too late would shrink the job",
        "SchedulerParameters=disable_job_shrink",
    )


def _remembers(config: Settings) -> Finding:
    seconds = _seconds(config, "MinJobAge")
    if seconds >= _MIN_JOB_AGE_S:
        return fine("MinJobAge", f"{seconds} s")
    return Finding(
        Level.RISK,
        "MinJobAge",
        f"ended jobs are removed after {seconds} s: an end during a restart of the controller is missed",
        "MinJobAge=300",
    )


def _preemption(config: Settings) -> Finding:
    plugin = config.get("PreemptType", "(null)")
    if plugin in ("(null)", "preempt/none", "none"):
        return fine("PreemptType", "only Tiresias preempts")
    return Finding(
        Level.RISK,
        "PreemptType",
        f"{plugin}: Slurm preempts too, without waiting for checkpoints",
        "PreemptMode=OFF on the managed partitions",
    )


def _memory(config: Settings) -> Finding:
    counts = "MEMORY" in config.get("SelectTypeParameters", "").upper()
    defaults = [config.get(name, "UNLIMITED") for name in ("DefMemPerNode", "DefMemPerCPU", "DefMemPerGPU")]
    if not counts or any(value not in ("UNLIMITED", "0", "(null)") for value in defaults):
        return fine("DefMemPer...", "a job without a memory request leaves memory to other jobs")
    return Finding(
        Level.ADVICE,
        "DefMemPer...",
        "a job without a memory request gets all memory of a node, and no other job fits there",
        "DefMemPerCPU or DefMemPerGPU, for the managed partitions at least",
    )


def _accounted(config: Settings) -> Finding:
    if "slurmdbd" not in config.get("AccountingStorageType", ""):
        return Finding(
            Level.ADVICE,
            "accounting",
            "none: a lost state database cannot be rebuilt, and Operator rights cannot be given",
            "AccountingStorageType=accounting_storage/slurmdbd",
        )
    if "gres/gpu" in _words(config, "AccountingStorageTRES"):
        return fine("accounting", "GPUs are accounted for")
    return Finding(Level.ADVICE, "accounting", "GPUs are not accounted for", "AccountingStorageTRES=gres/gpu")


def _admission(config: Settings) -> Finding:
    if any("lua" in plugin for plugin in _words(config, "JobSubmitPlugins")):
        return fine("JobSubmitPlugins", "lua")
    return Finding(
        Level.ADVICE,
        "JobSubmitPlugins",
        "Slurm may start a job before the controller ranks it",
        "JobSubmitPlugins=lua, with etc/job_submit.lua beside slurm.conf",
    )


def _hook(config: Settings) -> Finding:
    if config.get("EpilogSlurmctld", "(null)") not in ("(null)", ""):
        return fine("EpilogSlurmctld", "set; it must call poke.sh")
    return Finding(
        Level.ADVICE,
        "EpilogSlurmctld",
        "no hook reports a job's end: GPUs are idle for up to a period, and a dependent job (afterany) may start out of order",
        "EpilogSlurmctld=/etc/tiresias/poke.sh",
    )


def _launch(config: Settings) -> Finding:
    if config.get("PrologSlurmctld", "(null)") in ("(null)", ""):
        return fine("PrologSlurmctld", "none")
    return Finding(
        Level.ADVICE,
        "PrologSlurmctld",
        "a slurmctld that is stopped while the prolog runs never launches the job",
        "use Prolog on the nodes where possible",
    )


def _kill_wait(config: Settings) -> Finding:
    seconds = _seconds(config, "KillWait")
    if seconds <= _MAX_KILL_WAIT_S:
        return fine("KillWait", f"{seconds} s")
    return Finding(
        Level.ADVICE,
        "KillWait",
        f"a job that ignores SIGTERM keeps its GPUs for {seconds} s after its requeue",
        "KillWait=30",
    )


_CHECKS: tuple[Callable[[Settings], Finding], ...] = (
    _select, _gres, _requeue, _shrink, _remembers, _preemption, _memory, _accounted, _admission, _hook, _launch, _kill_wait,
)  # fmt: skip


def risks(config: Settings) -> Iterator[str]:
    """Yield the findings that the controller logs at its start."""
    for found in findings(config):
        if found.level >= Level.RISK:
            yield f"{found.about}: {found.words}; {found.remedy}"
