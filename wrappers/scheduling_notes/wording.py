"""What becomes of a job at this site, in words. Pure."""

from __future__ import annotations

from typing import NamedTuple

from tiresias.wrappers.previous_job import PreviousJob
from tiresias.wrappers.scheduling_notes.site_controller import SiteController
from tiresias.wrappers.scheduling_notes.submit_options import SubmitOptions, asks_for_gpus


class Scheduling(NamedTuple):
    """ours: it may be preempted if it can save."""

    ours: bool
    words: str


def scheduling(wishes: SubmitOptions, user: str, site: SiteController | None) -> Scheduling:
    if site is None:
        return Scheduling(True, "whether Tiresias schedules it cannot be seen from this host")
    if reason := _why_not(wishes, user, site):
        return Scheduling(False, f"Slurm alone schedules it: {reason}")
    if site.mode != "exact":
        return Scheduling(False, f"Slurm alone schedules it: Tiresias only watches (mode {site.mode})")
    if site.leads is False:
        return Scheduling(False, "Slurm alone schedules it for now: the controller of Tiresias is silent")
    if not (partition := _partition(wishes, site)):
        return Scheduling(True, f"Tiresias schedules it if its partition is {' or '.join(sorted(site.partitions))}")
    said = "" if site.leads else ", as its configuration says"
    return Scheduling(True, f"Tiresias schedules it in partition {partition}{said}")


def saving(wishes: SubmitOptions, ours: bool, seen_in: str, earlier: PreviousJob | None) -> str:
    """seen_in: where the program is seen to save, "" where it is not. The word of an earlier job counts more than a look."""
    if wishes.get("requeue") == "no":
        return "never preempted, as --no-requeue keeps it from coming back"
    why = _why(seen_in, earlier)
    if _saves(seen_in, earlier):
        return f"{'may be preempted' if ours else 'saves before its time limit'}: {why}"
    return f"not preempted unless its program says that it can save: {why} (tiresias rehearse tells)" if ours else why


def renewal(wishes: SubmitOptions, seen_in: str, earlier: PreviousJob | None) -> str:
    """What the time limit means for a job that can save; "" where it asks for none or cannot. 22.05 tells jobs no end."""
    limit = wishes.get("time")
    if not limit or not _saves(seen_in, earlier):
        return ""
    if wishes.get("requeue") == "no":
        return f"it saves before its time limit ({limit}) and ends there"
    return f"--time={limit} limits each run and not the job, which is requeued at the limit and goes on (from Slurm 23.02 on)"


def order(wishes: SubmitOptions, ours: bool) -> str:
    """What becomes of the options that order jobs or delay them; "" where there are none."""
    if not ours:
        return ""
    ignored = [f"--{name}" for name in ("nice", "priority") if name in wishes and wishes[name] != "0"]
    verb = "has" if len(ignored) == 1 else "have"
    without = (
        f"{' and '.join(ignored)} {verb} no effect on the order of jobs that Tiresias schedules" if ignored else ""
    )
    begin = f"not started before --begin={wishes['begin']}" if wishes.get("begin", "now") != "now" else ""
    return "; ".join(filter(None, [without, begin]))


def _saves(seen_in: str, earlier: PreviousJob | None) -> bool:
    return bool(seen_in) or (earlier is not None and earlier.registered)


def self_saving(wishes: SubmitOptions, ours: bool, option: str) -> str:
    """option: TIRESIAS_CHECKPOINT; "" where it is not set, or the job is not requeued anyway."""
    if not option or wishes.get("requeue") == "no":
        return ""
    return f"{'may be preempted' if ours else 'saves before its time limit'}: its program saves by itself ({option})"


def _why(seen_in: str, earlier: PreviousJob | None) -> str:
    if earlier and earlier.registered:
        step = f", and saved step {earlier.step}" if earlier.step >= 0 else ""
        return f"job {earlier.job} of this script could save{step}"
    if seen_in:
        return f"{seen_in} names tiresias.checkpoint"
    return f"job {earlier.job} of this script could not save" if earlier else "no checkpointing seen in the script"


def _why_not(wishes: SubmitOptions, user: str, site: SiteController) -> str:
    """As the controller sees it (slurm_plugin/cluster/scope.py), as far as the options tell."""
    partition = _partition(wishes, site)
    if partition and not site.partitions.issuperset(partition.split(",")):
        return f"partition {partition} is not managed"
    if user in site.users:
        return f"user {user} is exempt"
    if wishes.get("account") in site.accounts:
        return f"account {wishes['account']} is exempt"
    if not asks_for_gpus(wishes):
        return "it asks for no GPU"
    return "it has a reservation" if wishes.get("reservation") else ""


def _partition(wishes: SubmitOptions, site: SiteController) -> str:
    return wishes.get("partition") or site.default
