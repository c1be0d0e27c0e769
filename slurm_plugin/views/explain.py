"""`tiresias explain`: one job, why it waits or runs, its runs and what was decided about it."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from rich.console import Group, RenderableType
from rich.text import Text

from tiresias.slurm_plugin.views.columns import FAINT, HEADING, Column, fitted, heading, line, words
from tiresias.slurm_plugin.views.jobs import STATE_STYLES, state_word
from tiresias.slurm_plugin.views.published import (
    Explanation,
    PublishedJob,
    PublishedOutlook,
    PublishedProfile,
    PublishedRun,
)
from tiresias.slurm_plugin.views.summary import decision_page, pause_words
from tiresias.slurm_plugin.views.text import clock, duration, place, printable, service

_RUNS = (
    Column("run", 4, right=True),
    Column("start", 13),
    Column("end", 13),
    Column("ran", 7, right=True),
    Column("GPUs", 4, right=True),
    Column("service", 12, right=True),
    Column("ready", 7, right=True, needs=100),  # from the start to the first step
    Column("save", 7, right=True, needs=100),
    Column("pause", 7, right=True, needs=100),  # from the signal to free GPUs
    Column("redone", 6, right=True, needs=100),
    Column("left for", 8, needs=110),
    Column("where", 10, share=1),
)
_LABEL = 14
_REASON_LINES = 4


def render_explanation(explanation: Explanation, width: int, now: float) -> RenderableType:
    job = explanation["job"]
    decisions = explanation.get("decisions", [])
    return Group(
        *_opening(job, width),
        *(_fact(name, value, width) for name, value in _facts(explanation, now)),
        *(part for name, value in _outlook(explanation.get("outlook"), now) for part in _wrapped(name, value, width)),
        *([_fact("paused", pause_words(pause, now), width)] if (pause := explanation.get("paused")) else []),
        *run_table(explanation.get("runs", []), width, now),
        Text(),
        words(("decisions, newest first", HEADING)),
        decision_page(decisions, now),
    )


def _opening(job: PublishedJob, width: int) -> list[Text]:
    state = state_word(job)
    name = printable(job.get("name", ""), 40)
    first = words(
        (f"job {printable(job['id'], 20)} ", HEADING), (f"{name} " if name else "", "bold cyan"), ("is ", ""),
        (printable(state, 20), f"bold {STATE_STYLES.get(state, '')}".strip()),
    )  # fmt: skip
    reason = wrap(printable(job.get("why", ""), _REASON_LINES * width), width)
    return [first, *(words((one, "")) for one in reason[:_REASON_LINES]), Text()]


def _facts(explanation: Explanation, now: float) -> list[tuple[str, str]]:
    """What is known; of a job that has ended that is little."""
    job = explanation["job"]
    facts = [("submitted", clock(job.get("submit_time", now), now))]
    if "user" in job:
        facts.append(("user", f"{job['user']}, partition {job.get('partition', '')}"))
    if gpus := job.get("gpus", 0):
        facts.append(("GPUs", f"{gpus} on {place(job['nodes'])}" if job.get("nodes") else str(gpus)))
    if "attained" in job:
        order = f"Q{job.get('queue', 0) + 1}, number {job.get('rank', 0) + 1} in the order of all jobs"
        times = f"ran {duration(job.get('ran', 0.0))}, waited {duration(job.get('waited', 0.0))}"
        facts += [("queue", order), ("service", f"{service(job['attained'])} attained"), ("time", times)]
    if "restarts" in job:
        facts.append(("runs", str(job["restarts"] + bool(job.get("start_time")))))
    facts.append(("preempted", _losses(explanation, now)))
    if job.get("nodes"):
        facts.append(("preemptable", "yes" if job.get("preemptable") else "not now"))
    if job.get("step", -1) >= 0:
        saved = job.get("checkpoint_time")
        facts.append(("checkpoint", f"step {job['step']}{'' if saved is None else f', {duration(now - saved)} ago'}"))
    if (cost := job.get("preemption_cost")) is not None:
        facts.append(
            ("a preemption", f"costs {cost:.1f} s on its GPUs, as measured: to save and leave, and to start again")
        )
    if profile := job.get("profile"):
        facts.append(("traffic", _traffic(profile)))
    return facts


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
    held = ", ".join(f"{outlook[name]} {words}" for name, words in has.items() if outlook[name])  # type: ignore[literal-required]
    steps = [
        ("next" if not at else "", f"{_until(one['time'], now)}: {one['what']}")
        for at, one in enumerate(outlook["steps"])
    ]
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


def _until(moment: float, now: float) -> str:
    return f"{clock(moment, now)}, in {duration(moment - now)}"


def _traffic(profile: PublishedProfile) -> str:
    """What the trial run of such a job told."""
    why = profile["reasons"][0] if profile.get("reasons") else profile.get("architecture", "")
    return f"{profile.get('decision', '')}: {why} (job {profile.get('job', '')} was recorded)"


def _fact(name: str, value: str, width: int) -> Text:
    return words((f"{name:{_LABEL}}", FAINT), (printable(value, max(width - _LABEL, 1)), ""))


def _wrapped(name: str, value: str, width: int) -> list[Text]:
    """A fact of more than one line."""
    room = max(width - _LABEL, 20)
    lines = wrap(printable(value, 10 * room), room)
    return [_fact(name if not at else "", one, width) for at, one in enumerate(lines)]


def run_table(runs: Sequence[PublishedRun], width: int, now: float) -> list[Text]:
    """One line a run, what it cost, and for which job it left."""
    if not runs:
        return []
    widths = fitted(_RUNS, width)
    return [Text(), heading(_RUNS, widths), *(_run(run, widths, now) for run in runs)]


def _run(run: PublishedRun, widths: dict[str, int], now: float) -> Text:
    end = run["end"]
    ran = (end or now) - run["start"]
    cells = {
        "run": str(run["restart"] + 1),
        "start": clock(run["start"], now),
        "end": clock(end, now) if end else "still runs",
        "ran": duration(ran),
        "GPUs": str(run["gpus"]),
        "service": service(max(ran, 0.0) * run["gpus"]),
        "ready": _seconds(run.get("restore")),
        "save": _seconds(run.get("save")),
        "pause": _seconds(run.get("pause")),
        "redone": "" if (redone := run.get("redone")) is None else str(redone),
        "left for": run.get("beneficiary", ""),
        "where": " ".join(run["nodes"]),
    }
    return line(_RUNS, widths, {title: (text, "") for title, text in cells.items()})


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}s"
