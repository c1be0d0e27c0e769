"""The metrics of virtual clusters for Prometheus. Pure. Labels are their names, uses of GPUs and types of cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tiresias.protocol.published_cells import PublishedVirtualCluster
from tiresias.protocol.status import PublishedNode

_GPUS = {"owned": "gpus", "guaranteed": "guaranteed", "free": "free", "opportunistic": "opportunistic"}
_GAUGES = {
    "waiting_jobs": ("waiting", "Jobs that fit into free cells of the virtual cluster and do not run yet."),
    "longest_wait_seconds": ("longest_wait", "Time since the first of these jobs fitted."),
    "wait_limit_seconds": ("wait_limit", "Time within which such a job is to start."),
}
_STARTS = ("kept", "broken")
_PREFIX = "tiresias_virtual_cluster"


def cell_metrics(clusters: Sequence[PublishedVirtualCluster]) -> Iterator[Metric]:
    """Yield the metrics of the virtual clusters; families without samples where there are none."""
    gpus = GaugeMetricFamily(
        f"{_PREFIX}_gpus", "GPUs by virtual cluster: owned, used by guaranteed jobs, free, used opportunistically.",
        labels=("virtual_cluster", "use"),
    )  # fmt: skip
    for each in clusters:
        for use, key in _GPUS.items():
            gpus.add_metric((each["name"], use), each[key])  # type: ignore[literal-required]
    yield gpus
    yield _free_cells(clusters)
    yield _fragmented(clusters)
    for name, (key, text) in _GAUGES.items():
        family = GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=("virtual_cluster",))
        for each in clusters:
            family.add_metric((each["name"],), each[key])  # type: ignore[literal-required]
        yield family
    yield _starts(clusters)


def _free_cells(clusters: Sequence[PublishedVirtualCluster]) -> Metric:
    family = GaugeMetricFamily(
        f"{_PREFIX}_free_cells", "Cells that no guaranteed job uses, by type.", labels=("virtual_cluster", "level")
    )
    for each in clusters:
        for level in each["levels"]:
            family.add_metric((each["name"], level["type"]), level["free"])
    return family


def _fragmented(clusters: Sequence[PublishedVirtualCluster]) -> Metric:
    family = GaugeMetricFamily(
        f"{_PREFIX}_fragmentation",
        "Share of the virtual cluster's nodes with some free GPUs that cannot give all of their GPUs.",
        labels=("virtual_cluster",),
    )
    for each in clusters:
        family.add_metric((each["name"],), each["fragmented"] / max(each["nodes"], 1))
    return family


def _starts(clusters: Sequence[PublishedVirtualCluster]) -> Metric:
    family = CounterMetricFamily(
        f"{_PREFIX}_starts",
        "Jobs that fitted into free cells, by whether they started within the limit, since the controller became leader.",
        labels=("virtual_cluster", "guarantee"),
    )
    for each in clusters:
        for word in _STARTS:
            family.add_metric((each["name"], word), each[word])  # type: ignore[literal-required]
    return family


def fragmentation(nodes: Sequence[PublishedNode]) -> float:
    """Return the share of the nodes with some free GPUs that cannot give all of their GPUs."""
    used = [sum(gpus for _, gpus in node["allocations"]) + node["other_gpus"] for node in nodes]
    partly = sum(0 < gpus < node["gpus"] for gpus, node in zip(used, nodes, strict=True))
    return partly / max(len(nodes), 1)
