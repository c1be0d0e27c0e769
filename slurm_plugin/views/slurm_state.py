"""Slurm's facts about a job as lines for people: state and reason, exit code and dependencies."""

from __future__ import annotations

from tiresias.protocol.explanation import PublishedDependency, PublishedSlurm
from tiresias.protocol.published_job import PublishedJob

USE_TSBATCH = "submitted with sbatch: use tsbatch to make it preemptible"
_HOLDS = ("JobHeldAdmin", "JobHeldUser")


def slurm_line(job: PublishedJob, slurm: PublishedSlurm | None) -> str:
    """State and reason as Slurm spells them. `slurm` is None once slurmctld has forgotten the job."""
    if slurm is None:
        return f"Slurm: no longer known to slurmctld; sacct -j {job['id']} -o JobID,State,ExitCode shows how it ended"
    text = f"Slurm: {state_and_reason(slurm)}"
    if slurm["state"] != "PENDING":
        return text
    if slurm["reason"].partition(",")[0] != slurm["shown"].partition(",")[0]:
        return f"{text}; squeue shows {slurm['shown']}{_hold(job, slurm)}"
    return f"{text}{_hold(job, slurm)}"


def state_and_reason(slurm: PublishedSlurm) -> str:
    """PENDING (Dependency), or FAILED (NonZeroExitCode), exit code 3."""
    reason = f" ({slurm['reason']})" if slurm["reason"] not in ("", "None") else ""
    code = slurm["exit_code"]
    return f"{slurm['state']}{reason}{'' if code is None else f', {exit_words(code)}'}"


def exit_words(code: int) -> str:
    """`code`: as a shell would see it."""
    return f"exit code {code} (signal {code - 128})" if code > 128 else f"exit code {code}"


def dependency(one: PublishedDependency) -> str:
    code = "" if one["exit_code"] is None else f", {exit_words(one['exit_code'])}"
    never = ": cannot be satisfied any more" if one["failed"] else ""
    return f"job {one['job']} ({one['kind']}): {one['state'] or 'not known to slurmctld'}{code}{never}"


def preemptable(job: PublishedJob, slurm: PublishedSlurm | None) -> str:
    """ "" for a job that has ended, and for a waiting job where nothing is known."""
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
