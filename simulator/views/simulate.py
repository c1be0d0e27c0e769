"""The output of `tiresias simulate`: tables, JSON and CSV. Pure: results in, text out."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict

from rich import box
from rich.table import Table
from rich.text import Text

from tiresias.scheduler.config import PolicyConfig
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.contention.simulated_contention import SimulatedContention
from tiresias.simulator.experiments.experiment import Setup
from tiresias.simulator.outcome import Outcome
from tiresias.simulator.outcome_metrics import Summary, finite, ratios
from tiresias.simulator.reporting import Reporting
from tiresias.simulator.topologies.network import Network
from tiresias.simulator.trace import Trace

JCT = {"mean_jct": "mean", "median_jct": "median", "p95_jct": "95th", "p99_jct": "99th"}
REST = {  # key -> (heading, how it is printed)
    "mean_queueing": ("queueing", "{:,.0f} s"),
    "makespan": ("makespan", "{:,.0f} s"),
    "preemptions": ("preemptions", "{:,}"),
    "gpu_utilization": ("GPUs used", "{:.1%}"),
    "wall_seconds": ("simulated in", "{:.1f} s"),
}
MEMORY = {  # likewise, where memory counts
    "memory_use": ("used", "{:.1%}"),
    "memory_max_over_median": ("fullest node / median", "{:.2f}"),
}
SLOWDOWNS = {  # likewise, where jobs slow each other
    "mean_interference_slowdown": ("by jobs on its servers", "{:.3f}"),
    "mean_network_slowdown": ("by the network", "{:.3f}"),
}

FAIRNESS_KNOBS = ("fairness", "attained", "usage_half_life", "usage_period")
OWNERS = {  # key -> (heading, how it is printed)
    "owners": ("number", "{:,}"),
    "jain_index": ("Jain index", "{:.3f}"),
    "worst_slowdown": ("worst slowdown", "{:.2f}"),
    "p90_slowdown": ("90th", "{:.2f}"),
    "mean_slowdown": ("mean", "{:.2f}"),
}
VIRTUAL_CLUSTER = ("jobs", "mean_queueing", "p99_queueing", "mean_jct")


def headline(setup: Setup) -> str:
    """Return the trace, the cluster and the rules in words."""
    return " ".join(
        [
            f"{setup.name}: {counted(len(setup.trace), 'job')} on {_size_in_words(setup.cluster)}.",
            _cost_in_words(setup),
            *_more_in_words(setup),
        ]
    )


def _size_in_words(cluster: ClusterSize) -> str:
    if cluster.network:
        return f"{cluster.gpus:,} GPUs of {cluster.nodes:,} servers in {cluster.network.name}"
    return f"{cluster.nodes} x {cluster.gpus_per_node} GPUs"


def _more_in_words(setup: Setup) -> Iterator[str]:
    """Yield a sentence for each setting that is not the default."""
    if setup.interval:
        yield f"A decision every {setup.interval:g} s."
    if setup.failures:
        saves = f"; its jobs save every {setup.checkpoint_interval:g} s" if setup.checkpoint_interval else ""
        yield f"A node fails every {setup.failures.mtbf:g} s and is down for {setup.failures.repair:g} s{saves}."
    if speeds := setup.placement and setup.placement.speeds:
        yield f"Nodes take {speeds.slowness.min():.2f} to {speeds.slowness.max():.2f} times as long as the median one for a step."
    if setup.contention:
        parts = ["servers"] * bool(setup.contention.interference) + ["links"] * bool(setup.cluster.network)
        yield f"Jobs slow each other on {' and '.join(parts)}."
    if setup.memory:
        yield f"A node has {setup.memory.node_gb:g} GB."
    if setup.tenants:
        count = len(setup.tenants.declared)
        yield f"{counted(count, 'virtual cluster')} {'shares' if count == 1 else 'share'} it by {setup.tenants.rule}."
    if setup.reporting:
        yield _reports_in_words(setup.reporting)


def _reports_in_words(reporting: Reporting) -> str:
    which = "The jobs with total_steps" if reporting.share is None else f"{reporting.share:.0%} of the jobs"
    error = f", wrong by up to a factor of {reporting.error:g}" if reporting.error > 1 else ""
    liars = f"; {reporting.liars:.0%} claim a tenth of what is left" if reporting.liars else ""
    return f"{which} report their progress{error}{liars}."


def _cost_in_words(setup: Setup) -> str:
    pause, resume = setup.cost
    words = [f"keeps its GPUs {pause:g} s longer"] * bool(pause)
    words += [f"works {resume:g} s after its next start only"] * bool(resume)
    sentence = f"A preempted job {' and '.join(words)}." if words else "Preemption costs nothing."
    own = "1 model has its own cost" if len(setup.costs) == 1 else f"{len(setup.costs)} models have their own costs"
    return f"{sentence} {own}." if setup.costs else sentence


def setup_json(setup: Setup) -> dict[str, object]:
    """Return the setup as a part of the JSON document."""
    knobs = {name: value for name, value in asdict(setup.config).items() if name != "name"}
    defaults = asdict(PolicyConfig.paper())
    for knob in ("admission", "sizing", "eviction", "target_slowdown", "starve_factor", *FAIRNESS_KNOBS):
        if knobs[knob] == defaults[knob]:
            del knobs[knob]  # in the document only where it is not the default
    return {
        "trace": setup.name,
        "jobs": len(setup.trace),
        "dropped": [{"reason": each.reason, "jobs": each.count, "first": each.example} for each in setup.trace.dropped],
        "nodes": setup.cluster.nodes,
        "gpus_per_node": setup.cluster.gpus_per_node,
        **({"nodes_per_leaf": setup.cluster.nodes_per_leaf} if setup.cluster.nodes_per_leaf else {}),
        **({"sockets_per_node": setup.cluster.sockets_per_node} if setup.cluster.sockets_per_node > 1 else {}),
        **{name: finite(value) if isinstance(value, float) else value for name, value in knobs.items()},
        "preemption_cost": setup.cost._asdict(),
        "preemption_costs": {model: cost._asdict() for model, cost in setup.costs.items()},
        "by_node": setup.by_node,
        "interval": setup.config.interval if setup.interval is None else setup.interval,
        **({"history_jobs": len(setup.history)} if len(setup.history) else {}),
        "checkpoint_interval": setup.checkpoint_interval,
        "failures": asdict(setup.failures) if setup.failures else None,
        **({"tenants": asdict(setup.tenants)} if setup.tenants else {}),
        **({"topology": _network_json(setup.cluster.network)} if setup.cluster.network else {}),
        **({"memory": asdict(setup.memory)} if setup.memory else {}),
        **({"contention": _contention_json(setup.contention)} if setup.contention else {}),
        **(
            {"node_slowness": setup.placement.speeds.slowness.tolist()}
            if setup.placement and setup.placement.speeds
            else {}
        ),
    }


def _network_json(network: Network) -> dict[str, object]:
    return {
        "name": network.name,
        "gpus": int(network.gpus.sum()),
        "servers": {kind.name: network.kinds.count(kind) for kind in dict.fromkeys(network.kinds)},
        "switches": len(network.switches),
        "bandwidths": [*network.tier_bandwidths],
    }


def _contention_json(contention: SimulatedContention) -> dict[str, object]:
    model = contention.interference
    if model is None:
        return {"interference": None}
    coefficients = dict(zip(model.form.labels, model.coefficients.tolist(), strict=True))
    return {"interference": {"form": model.form.name, "coefficients": coefficients, "exponent": model.exponent}}


def dropped_lines(trace: Trace) -> list[str]:
    """Return a line for each reason for which jobs were dropped."""
    return [f"dropped {counted(each.count, 'job')}: job {each.example} {each.reason}" for each in trace.dropped]


def comparison(setup: Setup, summaries: Mapping[str, Summary]) -> dict[str, object]:
    """Return the JSON document."""
    return {"policies": dict(summaries), "ratios": ratios(summaries), **setup_json(setup)}


def as_text(document: Mapping[str, object]) -> Iterator[str]:
    """Yield the JSON document as text."""
    yield json.dumps(document, indent=2, allow_nan=False)
    yield "\n"


def job_lines(trace: Trace, outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    """Yield the jobs as CSV, a line for each policy and job."""
    yield "policy,job_id,start,finish,jct,preemptions\n"
    for name, outcome in outcomes.items():
        columns = (outcome.start, outcome.finish, outcome.jct, outcome.preemptions)
        yield from _csv(zip((name,) * len(trace), trace.job_id, *(each.tolist() for each in columns), strict=True))


def series_lines(outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    """Yield the timeline as CSV: a line is valid until the time of the next one."""
    yield "policy,time,gpus_used,running,waiting\n"
    for name, outcome in outcomes.items():
        timeline = outcome.timeline
        columns = (timeline.time, timeline.used, timeline.running, timeline.waiting)
        yield from _csv(zip((name,) * len(timeline.time), *(each.tolist() for each in columns), strict=True))


class _Echo:
    def write(self, line: str) -> str:
        return line


def _csv(rows: Iterable[Iterable[object]]) -> Iterator[str]:
    return map(csv.writer(_Echo(), lineterminator="\n").writerow, rows)


def tables(summaries: Mapping[str, Summary]) -> list[Table]:
    """Return the tables of the metrics."""
    slowed = all(key in each for key in SLOWDOWNS for each in summaries.values())
    has_memory = all(key in each for key in MEMORY for each in summaries.values())
    return [
        _jct_table(summaries),
        _rest_table(summaries),
        *([_slowdown_table(summaries)] if slowed else []),
        *([_memory_table(summaries)] if has_memory else []),
    ]


def _memory_table(summaries: Mapping[str, Summary]) -> Table:
    rows = ((name, [form.format(each[key]) for key, (_, form) in MEMORY.items()]) for name, each in summaries.items())
    return filled_table("memory until the last submission", (heading for heading, _ in MEMORY.values()), rows)


def _jct_table(summaries: Mapping[str, Summary]) -> Table:
    base, *others = summaries
    table = new_table("JCT, seconds" + (f" (and times that of {base})" if others else ""))
    for heading in JCT.values():
        table.add_column(heading, justify="right", no_wrap=True)
    against = ratios(summaries)
    for name, each in summaries.items():
        table.add_row(name, *(_with_ratio(each[key], against.get(name, {}).get(key)) for key in JCT))
    return table


def _with_ratio(seconds: float, ratio: float | None) -> str:
    return f"{seconds:,.0f}" if ratio is None else f"{seconds:,.0f} ({ratio:.2f})"


def _rest_table(summaries: Mapping[str, Summary]) -> Table:
    table = new_table("")
    for heading, _ in REST.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for name, each in summaries.items():
        table.add_row(name, *(form.format(each[key]) for key, (_, form) in REST.items()))
    return table


def _slowdown_table(summaries: Mapping[str, Summary]) -> Table:
    rows = (
        (name, [form.format(each[key]) for key, (_, form) in SLOWDOWNS.items()]) for name, each in summaries.items()
    )
    return filled_table("mean slowdown of a job (1: none)", (heading for heading, _ in SLOWDOWNS.values()), rows)


def virtual_cluster_table(policies: Mapping[str, Mapping[str, Summary]]) -> Table:
    """Return the table of the virtual clusters. `policies`: the metrics of each virtual cluster, by policy."""
    table = new_table("queueing by virtual cluster, seconds")
    for heading in ("virtual cluster", "jobs", "mean", "99th", "mean JCT"):
        table.add_column(heading, justify="left" if heading == "virtual cluster" else "right", no_wrap=True)
    for policy, clusters in policies.items():
        for name, each in clusters.items():
            table.add_row(policy, one_line(name) or "(none)", *(f"{each[key]:,.0f}" for key in VIRTUAL_CLUSTER))
    return table


def owner_table(kind: str, policies: Mapping[str, Summary]) -> Table:
    """Return how equally owners are served. kind: "users" or "accounts". `policies`: the metrics by policy."""
    rows = ((name, [form.format(each[key]) for key, (_, form) in OWNERS.items()]) for name, each in policies.items())
    return filled_table(f"slowdown of {kind}", (heading for heading, _ in OWNERS.values()), rows)


def new_table(title: str) -> Table:
    """Return an empty table in the common style."""
    table = Table(title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("")
    return table


def filled_table(title: str, header: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]]) -> Table:
    """Return a table of rows with a name and cells. A name may contain anything: it is shown as text, without its markup."""
    table = new_table(title)
    for heading in header:
        table.add_column(heading, justify="right", no_wrap=True)
    for name, cells in rows:
        table.add_row(Text(one_line(name)), *cells)
    return table


def counted(count: int, what: str) -> str:
    """Return a number of things with their name: 1 job, 2,000 jobs."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def one_line(name: str) -> str:
    """Return a name on one line, without control characters, 40 characters at most."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)[:40]
