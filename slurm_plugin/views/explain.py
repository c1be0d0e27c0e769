"""`tiresias explain`: one job, why it waits or runs, its runs and the decisions on it. Long texts wrap, nothing is cut."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from tiresias.protocol.explanation import Explanation, PublishedStartForecast
from tiresias.protocol.published_job import PublishedJob, PublishedProfile
from tiresias.slurm_plugin.comments import rounding
from tiresias.slurm_plugin.views.alarms import pause_text
from tiresias.slurm_plugin.views.decisions import decision_page
from tiresias.slurm_plugin.views.gpu_use import gpu_use
from tiresias.slurm_plugin.views.jobs import STATE_STYLES, state_word
from tiresias.slurm_plugin.views.neighbours import interference_text, speed_text
from tiresias.slurm_plugin.views.owners import owner_text
from tiresias.slurm_plugin.views.predictions import end_text, last_change, servers, sizes
from tiresias.slurm_plugin.views.remote_memory_text import memory_facts
from tiresias.slurm_plugin.views.runs import run_table
from tiresias.slurm_plugin.views.slurm_state import dependency, preemptable, slurm_line
from tiresias.slurm_plugin.views.table_layout import FAINT, HEADING, styled, wrapped
from tiresias.slurm_plugin.views.text import clock, duration, place, printable, service, time_left

_LABEL = 14
_REASON_CELLS = 1000


def render_explanation(explanation: Explanation, width: int, now: float) -> RenderableType:
    """Return the facts on a job, its runs and its decisions."""
    paused = explanation.get("paused")
    facts = [
        *_facts(explanation, now),
        *_forecast(
            explanation.get("outlook"),
            now,
            "owned GPUs" if explanation["job"].get("virtual_cluster") else "managed GPUs",
        ),
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
    """Return the job and its state, Slurm's state and reason, and Tiresias's reason."""
    job = explanation["job"]
    state = state_word(job)
    verb, shown = ("has", "ended") if state == "ended" else ("is", printable(state, 20))
    first = Text.assemble(
        (f"job {printable(job['id'], 20)} ", HEADING),
        (f"{name} " if (name := printable(job.get("name", ""), 200)) else "", "bold cyan"),
        f"{verb} ",
        (shown, f"bold {STATE_STYLES.get(state, '')}".strip()),
    )
    reasons = [slurm_line(job, explanation["slurm"])] if "slurm" in explanation else []
    lines = [one for text in (*reasons, job.get("why", "")) if text for one in wrapped(text, width, _REASON_CELLS)]
    return [*_wrapped_text(first, width), *(styled((one, "")) for one in lines), Text()]


def _wrapped_text(text: Text, width: int) -> list[Text]:
    """Return the text as it is where it fits, else on more lines without its styles."""
    return [text] if text.cell_len <= width else [styled((one, HEADING)) for one in wrapped(text.plain, width)]


def _facts(explanation: Explanation, now: float) -> Iterator[tuple[str, str]]:
    """Yield the known facts, few of a job that has ended."""
    job, slurm = explanation["job"], explanation.get("slurm")
    yield "submitted", clock(job.get("submit_time", now), now)
    if "user" in job:
        yield "user", f"{job['user']}, partition {job['partition']}" if job.get("partition") else job["user"]
    yield from _size(job)
    if cluster := job.get("virtual_cluster"):
        how = {True: "; guaranteed, in its cells", False: "; opportunistic"}.get(job.get("guaranteed"), "")  # type: ignore[arg-type]
        yield "cells", f"virtual cluster {cluster}{how if job.get('nodes') else ''}"
    for one in slurm["depends_on"] if slurm else ():
        yield "depends on", dependency(one)
    yield from _service(job)
    if owner := owner_text(job):
        yield "fairness", owner
    yield from _progress(job)
    if ends := end_text(job, now):
        yield "expected end", ends
    if use := gpu_use(job):
        yield "GPU use", use
    yield from memory_facts(job, explanation.get("remote_memory"))
    yield from _on_its_nodes(explanation)
    if change := last_change(explanation.get("runs", [])):
        yield "size", change
    yield "preempted", _losses(explanation, now)
    if can := preemptable(job, slurm):
        yield "preemptable", can
    if job.get("step", -1) >= 0:
        saved = job.get("checkpoint_time")
        yield "checkpoint", f"step {job['step']}{'' if saved is None else f', {duration(now - saved)} ago'}"
    if (cost := job.get("preemption_cost")) is not None:
        yield "preemption", f"costs {cost:.1f} s of its GPUs (measured: save, release and restart)"
    if profile := job.get("profile"):
        yield "traffic", _traffic(profile)


def _on_its_nodes(explanation: Explanation) -> Iterator[tuple[str, str]]:
    """Yield the nodes on which it is slow, and what is expected beside the jobs there."""
    if slow := explanation["job"].get("slow_nodes"):
        each = ", ".join(f"{printable(node, 100)} ({ratio:.1f} times as slow)" for node, ratio in slow)
        yield (
            "slow nodes",
            f"{each}: slower than half of the median of its ranks or servers, which wait for them where they train together",
        )
    if beside := interference_text(explanation.get("interference")):
        yield "interference", beside
    if speed := speed_text(explanation.get("speed")):
        yield "node speed", speed


def _size(job: PublishedJob) -> Iterator[tuple[str, str]]:
    """Yield the GPUs of a job and its parameter servers, with the sizes of an elastic one."""
    if gpus := job.get("gpus", 0):
        elastic = f"; elastic: {job['elastic']}{_allowed(job)}" if job.get("elastic") else ""
        yield "GPUs", (f"{gpus} on {place(job['nodes'])}" if job.get("nodes") else str(gpus)) + elastic
    if count := servers(job):
        yield "servers", f"{count} on CPUs alone"
    if rigid := job.get("rigid"):
        yield "elastic", f"no more: {printable(rigid, 300)}"


def _allowed(job: PublishedJob) -> str:
    """Return the sizes that are possible now where they differ from what the owner states."""
    now = sizes(job)
    return f", now {now}" if now and now != job["elastic"].partition(":")[0] else ""


def _service(job: PublishedJob) -> Iterator[tuple[str, str]]:
    if "attained" in job:
        yield "queue", f"Q{job.get('queue', 0) + 1}, rank {job.get('rank', 0) + 1} among all jobs"
        yield "service", f"{service(job['attained'])} attained"
        yield "time", f"ran {duration(job.get('ran', 0.0))}, waited {duration(job.get('waited', 0.0))}"
    if "restarts" in job:
        yield "runs", str(job["restarts"] + bool(job.get("start_time")))


def _progress(job: PublishedJob) -> Iterator[tuple[str, str]]:
    """Yield the step that the program reported, and the time left."""
    step, total, left = job.get("progress"), job.get("total_steps"), job.get("remaining")
    if step is not None:
        steps = f"step {step:,.0f}" + ("" if total is None else f" of {total:,.0f}")
        about = "" if left is None else f", {time_left(left)} left"
        yield "progress", f"{steps}{about}, as its program reports"


def _losses(explanation: Explanation, now: float) -> str:
    """Return the number of preemptions, the last of them with its beneficiary, and their measured cost."""
    preempted = [run for run in explanation.get("runs", []) if run.get("beneficiary") and run["end"]]
    newest = preempted[-1] if preempted else None
    last = f", last at {clock(newest['end'] or now, now)} for job {newest['beneficiary']}" if newest else ""
    if newest and newest.get("lost") is not None:
        last += f", which ended its run without a checkpoint: {duration(newest['lost'] or 0.0)} are done again"
    sums = explanation.get("had", {})
    lost = sums.get("saving", 0.0) + sums.get("restoring", 0.0) + sums.get("redone", 0.0)
    cost = f"; measured cost {service(lost)}" if lost else ""
    return f"{explanation['job'].get('preemptions', 0)} times{last}{cost}"


def _forecast(forecast: PublishedStartForecast | None, now: float, gpus: str) -> list[tuple[str, str]]:
    """Return the forecast. gpus: for which GPUs it holds, those of all nodes or those that a virtual cluster owns."""
    if forecast is None:
        return []
    has = {
        "free": "free",
        "ahead": "held by higher-ranked jobs",
        "behind": "by lower-ranked jobs",
        "fixed": "by jobs that cannot be preempted now",
        "others": "by jobs that do not compete with it, or out of service",
    }
    held = ", ".join(f"{forecast[name]} {text}" for name, text in has.items() if forecast[name])  # type: ignore[literal-required]
    steps = [
        ("next" if not at else "", f"{_until(one['time'], now)}: {one['what']}")
        for at, one in enumerate(forecast["steps"])
    ]
    steps += _estimate(forecast, now)
    if forecast["latest"] is None:
        return [(gpus, held), *steps, ("no bound", forecast["why"])]
    unless = "if no further jobs arrive and no node fails, plus the time of saves, starts and policy.min_run of lower-ranked jobs"
    return [
        (gpus, held),
        *steps,
        ("latest start", f"{_until(forecast['latest'], now)}, {unless}: {forecast['why']}"),
    ]


def _estimate(forecast: PublishedStartForecast, now: float) -> list[tuple[str, str]]:
    """Return the estimate as in the comment that squeue shows, and the notes."""
    start = forecast.get("estimate")
    about = "" if start is None else rounding.estimate(max(start - now, 0.0))
    found = [("estimate", f"starts in about {about} (estimate from time limits)")] if about else []
    return found + [("note", one) for one in forecast.get("notes", [])]


def _until(moment: float, now: float) -> str:
    return f"{clock(moment, now)}, in {duration(moment - now)}"


def _traffic(profile: PublishedProfile) -> str:
    """Return the result of the trial run of such a job."""
    why = profile["reasons"][0] if profile.get("reasons") else profile.get("architecture", "")
    return f"{profile.get('decision', '')}: {why} (recorded: job {profile.get('job', '')})"


def fact(name: str, value: str, width: int) -> list[Text]:
    """Return a name and its value on as many lines as the value needs."""
    lines = wrapped(value, max(width - _LABEL, 20))
    return [styled((f"{'' if at else name:{_LABEL}}", FAINT), (one, "")) for at, one in enumerate(lines)]
