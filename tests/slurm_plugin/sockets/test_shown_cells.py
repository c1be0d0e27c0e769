"""What the control socket answers about virtual clusters, to each user, and that a report may be requested at any time."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.example_cells import DECLARED, example_cells, example_publication, example_snapshot
from tests.slurm_plugin.sockets.test_published_types import faults
from tiresias.errors import TiresiasError
from tiresias.protocol.published_cells import Cells, PublishedVirtualCluster
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.tenants.private_clusters import PrivateClusters
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule
from tiresias.slurm_plugin.cluster.reported_rule import ReportedRule
from tiresias.slurm_plugin.sockets.peer import Peer
from tiresias.slurm_plugin.sockets.privacy import Privacy
from tiresias.slurm_plugin.sockets.publication import Publisher
from tiresias.slurm_plugin.sockets.shown_cells import CellAnswers, virtual_clusters
from tiresias.slurm_plugin.sockets.shown_reasons import ShownReasons
from tiresias.slurm_plugin.views.explain import render_explanation

ROOT, ALICE = Peer(1, 0, 0), 1001
TENANTS = [
    TenantPolicy(name, PolicyConfig(name="las"), POLICIES["las"])
    for name in (*(each.name for each in DECLARED), OUTSIDE)
]


def all_of(cells: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for cell in cells:
        yield cell
        yield from all_of(cell.get("parts", []))


def test_the_answer_is_as_declared() -> None:
    assert not [*faults(example_cells(), Cells)]
    assert example_cells().keys() == Cells.__annotations__.keys()


def test_the_sums_are_as_declared_and_those_of_the_trees() -> None:
    newest = example_publication()
    found = virtual_clusters(newest.cells, newest.guarantees, 150.0)
    assert not [*faults(found, list[PublishedVirtualCluster])]
    trees = example_cells()["virtual_clusters"]
    assert found == [{key: value for key, value in each.items() if key != "cells"} for each in trees]
    assert [(each["name"], each["waiting"], each["kept"], each["broken"]) for each in found] == [
        ("prod-a", 1, 31, 0), ("research", 0, 118, 1), ("speech", 0, 0, 0),
    ]  # fmt: skip
    assert virtual_clusters(None, {}, 150.0) == []


def test_the_publisher_answers_once_a_cycle(tmp_path: Path) -> None:
    publisher, newest = Publisher(tmp_path / "journal"), example_publication()
    publisher.publish(newest)
    first = publisher.answer({"op": "cells"}, ROOT)
    assert publisher.answer({"op": "cells"}, ROOT) is first
    publisher.publish(replace(newest))
    assert publisher.answer({"op": "cells"}, ROOT) is not first


@pytest.mark.parametrize(
    ("cells", "words"),
    [(None, "no virtual clusters are configured"), (PrivateClusters(DECLARED).report, "no cells are bound")],
)
def test_without_cells_it_is_an_error(cells: Any, words: str) -> None:
    newest = replace(example_publication(), cells=cells)
    with pytest.raises(TiresiasError, match=words):
        CellAnswers(Privacy()).answer(newest, 0)
    assert virtual_clusters(cells, {}, 150.0) == []


def test_jobs_of_other_users_are_hidden_and_their_gpus_stay() -> None:
    privacy = Privacy(frozenset({"jobs"}), frozenset({0}))
    whole, seen = example_cells(), privacy.cells(example_cells(), ALICE, {"801"})
    jobs = {job[0] for cell in all_of(seen["hardware"]) for job in cell.get("jobs", [])}
    assert jobs == {"801"}
    for each, before in zip(seen["virtual_clusters"], whole["virtual_clusters"], strict=True):
        shown = [(cell["name"], cell.get("guaranteed")) for cell in all_of(each["cells"])]
        assert shown == [(cell["name"], cell.get("guaranteed")) for cell in all_of(before["cells"])]
        assert all(job[0] == "801" for cell in all_of(each["cells"]) for job in cell.get("jobs", []))
    assert whole == example_cells(), "the published answer is unchanged"


def test_hidden_nodes_are_in_no_binding() -> None:
    seen = Privacy(frozenset({"nodes"})).cells(example_cells(), ALICE, ())
    assert seen["hardware"] == []
    assert "gpu" not in str([each["cells"] for each in seen["virtual_clusters"]]).replace("gpus", "")
    assert not [*faults(seen, Cells)]


def test_jobs_have_reasons_in_terms_of_cells() -> None:
    newest = example_publication()
    found, row = ShownReasons(newest), {job: at for at, job in enumerate(newest.snapshot.jobs.id)}
    assert found.why(row["801"]).startswith("runs in a leaf of virtual cluster prod-a")
    assert found.why(row["812"]).startswith("runs opportunistically: what virtual cluster research owns is in use")
    assert found.why(row["820"]).startswith("runs opportunistically: it belongs to no virtual cluster")
    assert found.why(row["813"]) == (
        "waits: virtual cluster prod-a owns 2 more nodes; job 815 runs on one of them (gpu04) opportunistically and is being "
        "preempted"
    )
    assert found.why(row["815"]) == (
        "runs opportunistically and is being preempted: job 813 of virtual cluster prod-a needs these GPUs for cells that the "
        "virtual cluster owns"
    )


def test_explain_names_the_cell() -> None:
    job: Any = {
        "id": "801",
        "state": "RUNNING",
        "virtual_cluster": "prod-a",
        "guaranteed": True,
        "nodes": [("gpu01", 8)],
    }
    out = Console(file=io.StringIO(), width=100, record=True)
    out.print(render_explanation({"job": job}, 100, 0.0))
    assert "cells         virtual cluster prod-a; guaranteed, in its cells\n" in out.export_text()


def test_a_report_may_be_requested_while_decisions_are_made() -> None:
    """A decision changes cells and takes that back at its end; no report shows what is between."""
    snapshot, rule = example_snapshot(), ReportedRule(VirtualClusterRule(DECLARED))
    assert rule.report() is None
    rule.decide(snapshot, TENANTS)
    used, over = set[int](), threading.Event()

    def poll() -> None:
        while not over.is_set():
            report = rule.report()
            assert report is not None
            used.add(sum(each.guaranteed for each in report.clusters))

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        for _ in range(20):
            rule.decide(snapshot, TENANTS)
    finally:
        over.set()
        thread.join()
    assert used == {50}


def test_a_decision_that_never_ends_blocks_no_report() -> None:
    snapshot, over = example_snapshot(), threading.Event()

    class Waits(VirtualClusterRule):
        """Decides once; the second decision waits for the end of the test."""

        def decide(self, *args: Any) -> Any:
            assert self.report() is None or over.wait(60.0)
            return super().decide(*args)

    rule = ReportedRule(Waits(DECLARED), wait_s=0.05)
    rule.decide(snapshot, TENANTS)
    first = rule.report()
    thread = threading.Thread(target=rule.decide, args=(snapshot, TENANTS))
    thread.start()
    try:
        assert rule.report() is first
        assert rule.report(trees=False) is None
    finally:
        over.set()
        thread.join()
    assert rule.report(trees=False) is not None
