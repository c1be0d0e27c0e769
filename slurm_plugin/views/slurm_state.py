"""Slurm's facts about a job as text: state and reason, exit code and dependencies."""

from __future__ import annotations

from tiresias.protocol.explanation import PublishedDependency, PublishedSlurm
from tiresias.protocol.published_job import PublishedJob

USE_TSBATCH = "submitted with sbatch: use tsbatch to make it preemptible"
_HOLDS = ("JobHeldAdmin", "JobHeldUser")


def slurm_line(job: PublishedJob, slurm: PublishedSlurm | None) -> str:
    """Return state and reason as Slurm spells them. `slurm` is None after slurmctld has removed the job."""
    if slurm is None:
        return f"Slurm: no longer known to slurmctld; sacct -j {job['id']} -o JobID,State,ExitCode shows how it ended"
    text = f"Slurm: {state_and_reason(slurm)}"
    if slurm["state"] != "PENDING":
        return text
    if slurm["reason"].partition(",")[0] != slurm["shown"].partition(",")[0]:
        return f"{text}; squeue shows {slurm['shown']}{_hold(job, slurm)}"
    return f"{text}{_hold(job, slurm)}"


def state_and_reason(slurm: PublishedSlurm) -> str:
    """Return text such as PENDING (Dependency), or FAILED (NonZeroExitCode), exit code 3."""
    reason = f" ({slurm['reason']})" if slurm["reason"] not in ("", "None") else ""
    code = slurm["exit_code"]
    return f"{slurm['state']}{reason}{'' if code is None else f', {exit_words(code)}'}"


def exit_words(code: int) -> str:
    """Return the text of an exit code in a shell's convention."""
    return f"exit code {code} (signal {code - 128})" if code > 128 else f"exit code {code}"


def dependency(one: PublishedDependency) -> str:
    """Return the text of one dependency."""
    code = "" if one["exit_code"] is None else f", {exit_words(one['exit_code'])}"
    never = ": can never be satisfied" if one["failed"] else ""
    return f"job {one['job']} ({one['kind']}): {one['state'] or 'not known to slurmctld'}{code}{never}"


def preemptable(job: PublishedJob, slurm: PublishedSlurm | None) -> str:
    """Return whether the job may be preempted, and if not, why.

    The text is "" for a job that has ended, and for a waiting job where nothing is known.
    """
    if job.get("state") == "ENDED":
        return ""
    if slurm and not slurm["batch"]:
        return "no: an srun or salloc allocation cannot be requeued"
    if slurm and not slurm["tsbatch"] and not slurm["ready"]:
        return f"no: {USE_TSBATCH}"
    if job.get("nodes"):
        return "yes" if job.get("preemptable") else "not now"
    return ""


def _hold(job: PublishedJob, slurm: PublishedSlurm) -> str:
    held = slurm["shown"] in _HOLDS and job.get("state") == "WAITING"
    return ": Tiresias holds the job until it may start" if held else ""
