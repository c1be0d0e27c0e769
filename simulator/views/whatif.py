"""The output of `tiresias whatif`: tables, words, JSON and one HTML file. Pure: results in, text out.

Names of users and partitions come from accounting and may contain anything: they are shown as text, without their markup.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from rich.table import Table

from tiresias.simulator.experiments.policy_comparison import RECORDED, WORSE, PolicyComparison, losers, numbers
from tiresias.simulator.formats.shadow_journal import ShadowRecord
from tiresias.simulator.outcome_metrics import Summary
from tiresias.simulator.views import shadow_comparison, simulation_plots, virtual_cluster_waits
from tiresias.simulator.views import simulate as simulate_view
from tiresias.simulator.views.conclusion import conclusion, terms

NO_PLOTS = (
    "There are no plots in this report: matplotlib is not installed where it was made. "
    "pip install 'slurm-tiresias[plot]' installs it; then run the command again."
)
_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222;background:#fff}
table{border-collapse:collapse;margin:1em 0}th,td{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}
th:first-child,td:first-child{text-align:left}img{max-width:100%}h2{margin-top:2em}.better{color:#176b2c}.worse{color:#a11}
dt{font-weight:bold}dd{margin:0 0 .4em 1.5em}.verdict{font-size:1.4em;line-height:1.35;margin-top:0}"""


def tables(found: PolicyComparison) -> Iterator[Table]:
    """Yield the tables."""
    yield from simulate_view.tables(_summaries(found))
    for kind, header, rows in _sections(found):
        yield simulate_view.filled_table(f"mean JCT in seconds by {kind}", header, rows)
    if found.shared:
        yield virtual_cluster_waits.table(found)
    if found.seen:
        yield _shadow_table(found.seen)


def _shadow_table(seen: ShadowRecord) -> Table:
    title = "beside what Slurm did, seen in mode shadow"
    return simulate_view.filled_table(title, shadow_comparison.HEADER, shadow_comparison.rows(seen))


def words(found: PolicyComparison) -> Iterator[str]:
    """Yield the conclusions, a sentence a line."""
    trust = found.trust
    if trust is None:
        yield "Accounting does not contain the end of each job, so the accuracy of a replay for this site is unknown."
    else:
        yield f"The replay of the present policy ({found.present}) gives {trust:.2f} times the mean JCT that accounting recorded."
    now = found.jct[found.present].mean()
    for name in found.alternatives:
        lost, summary = losers(found, name), found.runs[name].summary
        times = _times(float(now), float(found.jct[name].mean()))
        yield (
            f"{name}: mean JCT {times}, {simulate_view.counted(int(summary['preemptions']), 'preemption')}, "
            f"{lost['jobs']:.1%} of the jobs and {lost['users']:.1%} of the users more than {WORSE - 1:.0%} later"
            + (f" (those jobs by {lost['seconds']:,.0f} s)." if lost["jobs"] else ".")
        )
    if found.seen:
        yield from shadow_comparison.words(found.seen)


def _times(now: float, then: float) -> str:
    """Return how many times a mean JCT is shorter or longer than the present one."""
    if not (now and then):
        return f"{then:,.0f} s instead of {now:,.0f} s"
    return f"{now / then:.2f} times shorter" if now >= then else f"{then / now:.2f} times longer"


def as_json(found: PolicyComparison) -> dict[str, object]:
    """Return the JSON document."""
    return {
        **simulate_view.comparison(found.setup, _summaries(found)),
        "present": found.present,
        "replay_by_recorded": found.trust,
        "recorded": numbers(found.jct[RECORDED], _all(found)) if RECORDED in found.jct else None,
        "groups": {
            kind: {
                name: {"jobs": len(rows)} | {policy: numbers(jct, rows) for policy, jct in found.jct.items()}
                for name, rows in members.items()
            }
            for kind, members in found.groups.items()
        },
        **({"virtual_clusters": _waits_json(found)} if found.shared else {}),
        "losers": {name: losers(found, name) for name in found.alternatives},
        "shadow": shadow_comparison.as_json(found.seen) if found.seen else None,
    }


def _waits_json(found: PolicyComparison) -> dict[str, object]:
    return {name: {"jobs": each.jobs, "waiting": each.runs} for name, each in found.waits().items()}


def as_html(found: PolicyComparison) -> Iterator[str]:
    """Yield one HTML file that needs no other: no script, no address, plots included. Its first line is the conclusion."""
    judged = conclusion(found)
    style = {True: "better", False: "worse", None: "even"}[judged.is_better]
    yield f'<!doctype html><html lang="en"><meta charset="utf-8"><title>What if: {html.escape(found.setup.name)}</title>'
    yield f'<style>{_STYLE}</style><h1 class="verdict {style}">{html.escape(judged.text)}</h1>'
    yield f"<p>{html.escape(simulate_view.headline(found.setup))}</p><ul>"
    yield from (
        f"<li>{html.escape(line)}</li>" for line in (*simulate_view.dropped_lines(found.setup.trace), *words(found))
    )
    yield "</ul>"
    yield from _summary_rows(found)
    for kind, header, rows in _sections(found):
        yield f"<h2>By {kind}</h2><p>Mean JCT in seconds, and times that of {html.escape(found.present)}.</p>"
        yield from _table(header, rows)
    if found.shared:
        yield f"<h2>Waiting by virtual cluster</h2><p>{html.escape(virtual_cluster_waits.MEANING)}</p>"
        yield from _table(virtual_cluster_waits.header(found), list(virtual_cluster_waits.rows(found)))
    if found.seen:
        yield "<h2>Beside what Slurm did</h2><p>Seen in mode shadow.</p>"
        yield from _table(shadow_comparison.HEADER, list(shadow_comparison.rows(found.seen)))
    yield "<h2>Plots</h2>"
    yield from _plots(found)
    yield "<h2>What the words mean</h2><dl>"
    yield from (f"<dt>{html.escape(word)}</dt><dd>{html.escape(meaning)}</dd>" for word, meaning in terms(found))
    yield "</dl></html>\n"


def has_plots() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def _summaries(found: PolicyComparison) -> dict[str, Summary]:
    return {name: run.summary for name, run in found.runs.items()}


def _all(found: PolicyComparison) -> np.ndarray:
    return np.arange(len(found.setup.trace))


def _sections(found: PolicyComparison) -> Iterator[tuple[str, list[str], list[tuple[str, list[str]]]]]:
    """Yield each kind of group: headings, and rows of a name and cells."""
    for kind, members in found.groups.items():
        yield kind, ["jobs", *found.jct], [(name, _cells(found, rows)) for name, rows in members.items()]


def _cells(found: PolicyComparison, rows: np.ndarray) -> list[str]:
    means = {name: float(jct[rows].mean()) for name, jct in found.jct.items()}
    base = means[found.present]
    return [
        f"{len(rows):,}",
        *(
            f"{mean:,.0f} ({mean / base:.2f})" if name in found.alternatives and base else f"{mean:,.0f}"
            for name, mean in means.items()
        ),
    ]


def _summary_rows(found: PolicyComparison) -> Iterator[str]:
    header = [*simulate_view.JCT.values(), *(heading for heading, _ in simulate_view.REST.values())]
    rows = [
        (
            name,
            [
                *(f"{each[key]:,.0f}" for key in simulate_view.JCT),
                *(form.format(each[key]) for key, (_, form) in simulate_view.REST.items()),
            ],
        )
        for name, each in _summaries(found).items()
    ]
    yield "<h2>All jobs</h2><p>JCT in seconds.</p>"
    yield from _table(header, rows)


def _table(header: list[str], rows: list[tuple[str, list[str]]]) -> Iterator[str]:
    yield f"<table><tr><th></th>{''.join(f'<th>{html.escape(each)}</th>' for each in header)}</tr>"
    for name, cells in rows:
        shown = html.escape(simulate_view.one_line(name))
        yield f"<tr><td>{shown}</td>{''.join(f'<td>{html.escape(each)}</td>' for each in cells)}</tr>"
    yield "</table>"


def _plots(found: PolicyComparison) -> Iterator[str]:
    if not has_plots():
        yield f"<p>{html.escape(NO_PLOTS)}</p>"
        return
    outcomes = {name: run.outcome for name, run in found.runs.items()}
    for file, image in simulation_plots.comparison(Path(), found.setup, outcomes).items():
        if file.suffix == ".svg":
            yield f'<p><img alt="{file.stem}" src="data:image/svg+xml;base64,{base64.b64encode(image).decode()}"></p>'
