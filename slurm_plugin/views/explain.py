"""`tiresias explain`: one job, why it waits or runs, its runs and what was decided about it. Nothing is cut: long texts wrap."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from tiresias.protocol.explanation import Explanation, PublishedOutlook
from tiresias.protocol.published_job import PublishedJob, PublishedProfile
from tiresias.slurm_plugin.comments import rounding
from tiresias.slurm_plugin.views.alarms import pause_text
from tiresias.slurm_plugin.views.decisions import decision_page
from tiresias.slurm_plugin.views.jobs import STATE_STYLES, state_word
from tiresias.slurm_plugin.views.runs import run_table
from tiresias.slurm_plugin.views.slurm_state import dependency, preemptable, slurm_line
from tiresias.slurm_plugin.views.table_layout import FAINT, HEADING, styled, wrapped
from tiresias.slurm_plugin.views.text import clock, duration, place, printable, service

_LABEL = 14
_REASON_CELLS = 1000


def render_explanation(explanation: Explanation, width: int, now: float) -> RenderableType:
    paused = explanation.get("paused")
    facts = [
        *_facts(explanation, now),
        *_outlook(explanation.get("outlook"), now),
        *([("paused", pause_text(paused, now))] if paused else []),
    ]
    return Group(
        *_opening(explanation, width),
        *(part for name, value in facts for part in fact(name, value, width)),
        *run_table(explanation.get("runs", []), width, now),
        Text(),
        styled(("decisions, newest first", HEADING)),
        *decision_page(explanation.get("decisions", []), now, width),
    )


def _opening(explanation: Explanation, width: int) -> list[Text]:
    """The job and its state; Slurm's state and reason; Tiresias's reason."""
    job = explanation["job"]
    state = state_word(job)
    verb, shown = ("has", "ended") if state == "ended" else ("is", printable(state, 20))
    first = Text.assemble(
        (f"job {printable(job['id'], 20)} ", HEADING), (f"{name} " if (name := printable(job.get("name", ""), 200)) else "",
        "bold cyan"), f"{verb} ", (shown, f"bold {STATE_STYLES.get(state, '')}".strip()),
    )  # fmt: skip
    reasons = [slurm_line(job, explanation["slurm"])] if "slurm" in explanation else []
    lines = [one for text in (*reasons, job.get("why", "")) if text for one in wrapped(text, width, _REASON_CELLS)]
    return [*_folded_text(first, width), *(styled((one, "")) for one in lines), Text()]


def _folded_text(text: Text, width: int) -> list[Text]:
    """As it is where it fits; else over more lines, without its styles."""
    return [text] if text.cell_len <= width else [styled((one, HEADING)) for one in wrapped(text.plain, width)]


def _facts(explanation: Explanation, now: float) -> Iterator[tuple[str, str]]:
    """What is known; of a job that has ended that is little."""
    job, slurm = explanation["job"], explanation.get("slurm")
    yield "submitted", clock(job.get("submit_time", now), now)
    if "user" in job:
        yield "user", f"{job['user']}, partition {job['partition']}" if job.get("partition") else job["user"]
    if gpus := job.get("gpus", 0):
        yield "GPUs", f"{gpus} on {place(job['nodes'])}" if job.get("nodes") else str(gpus)
    for one in slurm["depends_on"] if slurm else ():
        yield "depends on", dependency(one)
    yield from _service(job)
    yield "preempted", _losses(explanation, now)
    if can := preemptable(job, slurm):
        yield "preemptable", can
    if job.get("step", -1) >= 0:
        saved = job.get("checkpoint_time")
        yield "checkpoint", f"step {job['step']}{'' if saved is None else f', {duration(now - saved)} ago'}"
    if (cost := job.get("preemption_cost")) is not None:
        yield "a preemption", f"costs {cost:.1f} s on its GPUs, as measured: to save and leave, and to start again"
    if profile := job.get("profile"):
        yield "traffic", _traffic(profile)


def _service(job: PublishedJob) -> Iterator[tuple[str, str]]:
    if "attained" in job:
        yield "queue", f"Q{job.get('queue', 0) + 1}, number {job.get('rank', 0) + 1} in the order of all jobs"
        yield "service", f"{service(job['attained'])} attained"
        yield "time", f"ran {duration(job.get('ran', 0.0))}, waited {duration(job.get('waited', 0.0))}"
    if "restarts" in job:
        yield "runs", str(job["restarts"] + bool(job.get("start_time")))


def _losses(explanation: Explanation, now: float) -> str:
    """How often it was preempted, for whom last, and what that has cost."""
    left = [run for run in explanation.get("runs", []) if run.get("beneficiary") and run["end"]]
    last = f", last at {clock(left[-1]['end'] or now, now)} for job {left[-1]['beneficiary']}" if left else ""
    had = explanation.get("had", {})
    lost = had.get("saving", 0.0) + had.get("restoring", 0.0) + had.get("redone", 0.0)
    cost = f"; cost it {service(lost)}, as measured" if lost else ""
    return f"{explanation['job'].get('preemptions', 0)} times{last}{cost}"


def _outlook(outlook: PublishedOutlook | None, now: float) -> list[tuple[str, str]]:
    if outlook is None:
        return []
    has = {
        "free": "free", "ahead": "held by jobs ahead of it", "behind": "by jobs behind it",
        "fixed": "by jobs that are not to be preempted now", "others": "by others or out of use",
    }  # fmt: skip
    held = ", ".join(f"{outlook[name]} {text}" for name, text in has.items() if outlook[name])  # type: ignore[literal-required]
    steps = [
        ("next" if not at else "", f"{_until(one['time'], now)}: {one['what']}")
        for at, one in enumerate(outlook["steps"])
    ]
    steps += _estimate(outlook, now)
    if outlook["latest"] is None:
        return [("all GPUs", held), *steps, ("no bound", outlook["why"])]
    unless = (
        "if no more jobs come and no node fails, without what saves, starts and policy.min_run of jobs behind it take"
    )
    return [
        ("all GPUs", held),
        *steps,
        ("at the latest", f"{_until(outlook['latest'], now)}, {unless}: {outlook['why']}"),
    ]


def _estimate(outlook: PublishedOutlook, now: float) -> list[tuple[str, str]]:
    """As in the comment that squeue shows."""
    start = outlook.get("estimate")
    about = "" if start is None else rounding.estimate(max(start - now, 0.0))
    found = [("estimate", f"starts in about {about} (estimate from time limits)")] if about else []
    return found + [("note", one) for one in outlook.get("notes", [])]


def _until(moment: float, now: float) -> str:
    return f"{clock(moment, now)}, in {duration(moment - now)}"


def _traffic(profile: PublishedProfile) -> str:
    """What the trial run of such a job told."""
    why = profile["reasons"][0] if profile.get("reasons") else profile.get("architecture", "")
    return f"{profile.get('decision', '')}: {why} (job {profile.get('job', '')} was recorded)"


def fact(name: str, value: str, width: int) -> list[Text]:
    """A name and its value, which wraps."""
    lines = wrapped(value, max(width - _LABEL, 20))
    return [styled((f"{'' if at else name:{_LABEL}}", FAINT), (one, "")) for at, one in enumerate(lines)]
