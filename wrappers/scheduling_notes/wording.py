"""The words of a scheduling note: what this site will do with the job. Pure."""

from __future__ import annotations

from typing import NamedTuple

from tiresias.protocol.opportunistic_choice import NO, YES
from tiresias.wrappers.images.option import TOOLS
from tiresias.wrappers.previous_job import PreviousJob
from tiresias.wrappers.scheduling_notes.site_controller import SiteController
from tiresias.wrappers.scheduling_notes.submit_options import SubmitOptions, asks_for_gpus, sharing


class Scheduling(NamedTuple):
    """Which scheduler handles the job.

    Attributes:
        managed: Tiresias may preempt it if it can save.
        words: As text.
        orders: Tiresias orders and starts it.
    """

    managed: bool
    words: str
    orders: bool = False


def scheduling(options: SubmitOptions, user: str, site: SiteController | None) -> Scheduling:
    """Return the scheduler of a job; `site`: None where this host does not show it."""
    if site is None:
        return Scheduling(True, "this host does not show whether Tiresias schedules it", True)
    if reason := _why_not(options, user, site):
        return Scheduling(False, f"Slurm alone schedules it: {reason}")
    if site.mode == "assist":
        return Scheduling(
            True, "Slurm schedules it; Tiresias preempts jobs for those that Slurm ranks first (mode assist)"
        )
    if site.mode != "exact":
        return Scheduling(False, f"Slurm alone schedules it: Tiresias only watches (mode {site.mode})")
    if site.leads is False:
        return Scheduling(False, "Slurm alone schedules it for now: the controller of Tiresias is silent")
    if not (partition := _partition(options, site)):
        return Scheduling(
            True, f"Tiresias schedules it if its partition is {' or '.join(sorted(site.partitions))}", True
        )
    source = "" if site.leads else ", by its configuration"
    return Scheduling(True, f"Tiresias schedules it in partition {partition}{source}", True)


def saving(options: SubmitOptions, managed: bool, seen_in: str, earlier: PreviousJob | None) -> str:
    """Describe preemption. seen_in: the file that names checkpoints, "" without one. An earlier job counts more than the file."""
    if options.get("requeue") == "no":
        return "never preempted, as --no-requeue keeps it from coming back"
    why = _why(seen_in, earlier)
    if saves(seen_in, earlier):
        return f"{'may be preempted' if managed else 'saves before its time limit'}: {why}"
    return (
        f"not preempted unless its program registers for checkpoints: {why} (tiresias rehearse checks it)"
        if managed
        else why
    )


def renewal(options: SubmitOptions, seen_in: str, earlier: PreviousJob | None) -> str:
    """Describe the time limit of a job that can save; "" without a limit or saves."""
    limit = options.get("time")
    if not limit or not saves(seen_in, earlier):
        return ""
    if options.get("requeue") == "no":
        return f"it saves before its time limit ({limit}) and ends there"
    return f"--time={limit} limits each run and not the job, which is requeued at the limit and goes on"


def order(options: SubmitOptions, orders: bool) -> str:
    """Describe the effect of options that order or delay jobs; "" without such options. orders: Tiresias orders the jobs."""
    if not orders:
        return ""
    ignored = [f"--{name}" for name in ("nice", "priority") if name in options and options[name] != "0"]
    auxiliary = "has" if len(ignored) == 1 else "have"
    without = (
        f"{' and '.join(ignored)} {auxiliary} no effect on the order of jobs that Tiresias schedules" if ignored else ""
    )
    begin = f"not started before --begin={options['begin']}" if options.get("begin", "now") != "now" else ""
    return "; ".join(filter(None, [without, begin]))


def opportunistic(choice: str, managed: bool) -> str:
    """Describe the choice of `--opportunistic` where it is not the default."""
    if not managed or choice == YES:
        return ""
    if choice == NO:
        return "never runs beyond the cells of its virtual cluster (--opportunistic=no)"
    return (
        "beyond the cells of its virtual cluster, its run is ended and starts again from the beginning when the GPUs are "
        "needed, unless it can save (--opportunistic=restart)"
    )


def saves(seen_in: str, earlier: PreviousJob | None) -> bool:
    """Return whether the program of the script is expected to save."""
    return bool(seen_in) or (earlier is not None and earlier.registered)


def self_saving(options: SubmitOptions, managed: bool, option: str) -> str:
    """Describe preemption of a self-saving program. option: TIRESIAS_CHECKPOINT; "" where unset or --no-requeue."""
    if not option or options.get("requeue") == "no":
        return ""
    how = (
        f"it is dumped as an image by {TOOLS[option]}" if option in TOOLS else f"its program saves by itself ({option})"
    )
    return f"{'may be preempted' if managed else 'saves before its time limit'}: {how}"


def _why(seen_in: str, earlier: PreviousJob | None) -> str:
    if earlier and earlier.registered:
        step = f", and saved step {earlier.step}" if earlier.step >= 0 else ""
        return f"job {earlier.job} of this script could save{step}"
    if seen_in:
        return f"{seen_in} names tiresias.checkpoint"
    return f"job {earlier.job} of this script could not save" if earlier else "no checkpointing seen in the script"


def _why_not(options: SubmitOptions, user: str, site: SiteController) -> str:
    """The controller's own rule (slurm_plugin/cluster/scope.py), as far as the options show it."""
    partition = _partition(options, site)
    if partition and not site.partitions.issuperset(partition.split(",")):
        return f"partition {partition} is not managed"
    if user in site.users:
        return f"user {user} is exempt"
    if options.get("account") in site.accounts:
        return f"account {options['account']} is exempt"
    if not asks_for_gpus(options):
        part = sharing(options)
        return f"it asks for a part of a GPU (gres/{part})" if part else "it asks for no GPU"
    return "it has a reservation" if options.get("reservation") else ""


def _partition(options: SubmitOptions, site: SiteController) -> str:
    return options.get("partition") or site.default
