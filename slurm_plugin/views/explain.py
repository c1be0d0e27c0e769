"""`tiresias explain`: one job, why it waits or runs, its runs and what was decided about it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from tiresias.slurm_plugin.views.columns import FAINT, HEADING, Column, fitted, heading, line, words
from tiresias.slurm_plugin.views.jobs import STATE_STYLES, state_word
from tiresias.slurm_plugin.views.published import Explanation, PublishedJob, PublishedProfile, PublishedRun
from tiresias.slurm_plugin.views.summary import decision_list, pause_words
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
    Column("where", 10, share=1),
)
_LABEL = 14


def render_explanation(explanation: Explanation, width: int, now: float) -> RenderableType:
    job = explanation["job"]
    decisions = explanation.get("decisions", [])
    return Group(
        *_opening(job, width),
        *(_fact(name, value, width) for name, value in _facts(job, now)),
        *([_fact("paused", pause_words(pause, now), width)] if (pause := explanation.get("paused")) else []),
        *_runs(explanation.get("runs", []), width, now),
        Text(),
        words(("decisions, newest first", HEADING)),
        *decision_list(decisions, now, width, max(len(decisions), 1)),
    )


def _opening(job: PublishedJob, width: int) -> list[Text]:
    state = state_word(job)
    name = printable(job.get("name", ""), 40)
    first = words(
        (f"job {printable(job['id'], 20)} ", HEADING), (f"{name} " if name else "", "bold cyan"), ("is ", ""),
        (printable(state, 20), f"bold {STATE_STYLES.get(state, '')}".strip()),
    )  # fmt: skip
    why = job.get("why", "")
    return [first, *([words((printable(why, width), ""))] if why else []), Text()]


def _facts(job: PublishedJob, now: float) -> list[tuple[str, str]]:
    """What is known; of a job that has ended that is little."""
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
    facts.append(("preempted", f"{job.get('preemptions', 0)} times"))
    if job.get("nodes"):
        facts.append(("preemptable", "yes" if job.get("preemptable") else "not now"))
    if job.get("step", -1) >= 0:
        facts.append(("checkpoint", f"step {job['step']}"))
    if (cost := job.get("preemption_cost")) is not None:
        facts.append(
            ("a preemption", f"costs {cost:.1f} s on its GPUs, as measured: to save and leave, and to start again")
        )
    if profile := job.get("profile"):
        facts.append(("traffic", _traffic(profile)))
    return facts


def _traffic(profile: PublishedProfile) -> str:
    """What the trial run of such a job told."""
    why = profile["reasons"][0] if profile.get("reasons") else profile.get("architecture", "")
    return f"{profile.get('decision', '')}: {why} (job {profile.get('job', '')} was recorded)"


def _fact(name: str, value: str, width: int) -> Text:
    return words((f"{name:{_LABEL}}", FAINT), (printable(value, max(width - _LABEL, 1)), ""))


def _runs(runs: Sequence[PublishedRun], width: int, now: float) -> list[Text]:
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
        "where": " ".join(run["nodes"]),
    }
    return line(_RUNS, widths, {title: (text, "") for title, text in cells.items()})


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}s"
