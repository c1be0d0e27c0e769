"""What the campaign with reloads judges in retrospect, on made-up records: a judge reports violations, and nothing else."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.cell_layouts import Layout, layouts
from tests.chaos.configurations import (
    ACCEPTED,
    REFUSED,
    UNANSWERED,
    Hangup,
    Order,
    Records,
    Stretch,
    Version,
    at,
    stretches,
)
from tests.chaos.guarantees import Grant, Shown, overbooked, since_last
from tests.chaos.reload_judges import (
    Around,
    EndedRun,
    answers,
    around,
    cells,
    ended,
    lost,
    refused_job,
    refused_wrongly,
    restarts,
    took,
    unlogged,
)
from tests.chaos.samples import Sample
from tests.chaos.tenants import GPUS_PER_NODE, NODES, NODES_PER_RACK, OWNED, PARTED
from tests.chaos.windows import Window, Windows
from tests.slurm_plugin.controller.centre import table_text
from tiresias.errors import UsageError
from tiresias.scheduler.tenants.cells_of_topology import cell_specification
from tiresias.scheduler.virtual_clusters.cell_state import CellState
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.occupancy import Occupancy
from tiresias.slurm_plugin.config import load_config

LAYOUTS = layouts(OWNED)
TENANT_OF = {"v": "vision", "s": "speech", "t": "speech", "r": "robots"}
GPUS = {"v": 8, "s": 8, "t": 16, "r": 8}
CALM = Windows()
TAKEN = "tiresias: virtual cluster speech: job 7 runs in cells that this change takes from it; leave it these cells"
TOO_MANY = "tiresias: virtual clusters own 16 cells of type node (level 2 of chain leaf); 9 are left"
NOTHING = "reloaded: nothing changed"


def order(first: float, layout: str, outcome: str = ACCEPTED, *words: str) -> Order:
    return Order(first, first + 1.0, layout, outcome, words)


def refusal(layout: Layout, folder: Path) -> str:
    """Return the line by which the product refuses a layout; "": it does not."""
    file = folder / "tiresias.toml"
    file.write_text('[policy]\nadmission = "virtual_clusters"\n' + table_text(layout.tables))
    try:
        config = load_config(file, {}, {})
        nodes = Occupancy(ClusterSize(NODES, GPUS_PER_NODE, nodes_per_leaf=NODES_PER_RACK)).nodes()
        CellState(cell_specification(nodes, [each.tenant for each in config.virtual_clusters]))
    except UsageError as error:
        return str(error)
    return ""


def recorded(*orders: Order) -> Records:
    """Each order reads a file that was written a second before."""
    versions = [Version(one.first - 1.0, one.first - 0.9, one.layout) for one in orders]
    return Records([Version(0.0, 0.0, "base"), *versions], list(orders))


# -- configurations ----------------------------------------------------------------------------------------------------------


def test_the_layouts_are_tables_of_the_configuration() -> None:
    valid = {name: each for name, each in LAYOUTS.items() if not each.refusal}
    assert valid["base"].owned == {"vision": {"leaf": 1}, "speech": {"node": 4}, "robots": {"node": 4}}
    assert valid["grown"].owned["robots"] == {"node": 5}
    assert valid["nodes"].owned["vision"] == {"node": 3}
    assert "robots" not in valid["without robots"].owned
    assert sum(tenant.nodes for tenant in valid["grown"].tenants.values()) == 12
    assert all(sum(tenant.nodes for tenant in each.tenants.values()) <= 12 for each in valid.values())
    assert valid["fifo"].tables[1]["policy"] == "fifo"
    assert layouts(PARTED)["grown"].owned["robots"] == {"socket": 10}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_product_refuses_the_invalid_layouts_as_the_campaign_expects(name: str, tmp_path: Path) -> None:
    line, expected = refusal(LAYOUTS[name], tmp_path), LAYOUTS[name].refusal
    assert bool(line) == bool(expected), line
    assert re.search(expected, line)


@pytest.mark.parametrize(
    ("before", "after", "lose"),
    [
        ("base", "moved", ["speech"]),
        ("moved", "base", ["robots"]),
        ("base", "grown", []),
        ("base", "nodes", ["vision"]),
        ("base", "without robots", ["robots"]),
        ("without robots", "base", []),
        ("base", "fifo", []),
    ],
)
def test_which_virtual_clusters_lose_cells(before: str, after: str, lose: list[str]) -> None:
    assert [name for name in OWNED if LAYOUTS[before].shrinks(name, LAYOUTS[after])] == lose


def test_an_accepted_reload_puts_a_layout_in_force() -> None:
    found = stretches(recorded(order(10.0, "moved"), order(20.0, "too many", REFUSED)), [], LAYOUTS)
    assert found == [Stretch(-math.inf, 10.0, "base"), Stretch(11.0, math.inf, "moved")]
    assert [at(found, moment) for moment in (9.0, 10.5, 11.0, 30.0)] == ["base", "", "moved", "moved"]


def test_without_an_answer_nothing_is_known_until_the_next_one() -> None:
    records = recorded(order(10.0, "moved", UNANSWERED), order(20.0, "moved"))
    assert stretches(records, [], LAYOUTS) == [Stretch(-math.inf, 10.0, "base"), Stretch(21.0, math.inf, "moved")]


def test_a_controller_that_starts_reads_the_file() -> None:
    records = recorded(order(10.0, "moved", UNANSWERED))
    assert stretches(records, [(10.2, 12.0)], LAYOUTS)[1:] == [Stretch(12.0, math.inf, "moved")]
    both = stretches(records, [(8.0, 12.0)], LAYOUTS)
    assert both == [Stretch(-math.inf, 8.0, "base")], "it may have read either version"


def test_a_controller_starts_with_the_valid_one_of_two_versions() -> None:
    records = recorded(order(10.0, "no cells", REFUSED), order(20.0, "base"))
    found = stretches(records, [(12.0, 19.8)], LAYOUTS)
    assert found[1] == Stretch(19.8, 20.0, "base")


# -- answers -----------------------------------------------------------------------------------------------------------------


def judged(*orders: Order, blind: Windows = CALM, outages: Any = ()) -> list[str]:
    records = recorded(*orders)
    return answers(records, outages, LAYOUTS, stretches(records, outages, LAYOUTS), blind)


@pytest.mark.parametrize(
    ("orders", "broken"),
    [
        ([order(10.0, "moved", ACCEPTED, "reloaded: virtual_cluster: ...")], 0),
        ([order(10.0, "moved", REFUSED, TAKEN)], 0),
        ([order(10.0, "too many", REFUSED, TOO_MANY)], 0),
        ([order(10.0, "too many", ACCEPTED, NOTHING)], 1),
        ([order(10.0, "too many", REFUSED, TAKEN)], 1),  # another line than that of its mistake
        ([order(10.0, "too many", REFUSED, "Traceback", TOO_MANY)], 1),
        ([order(10.0, "moved", UNANSWERED, "it may hang")], 1),
        ([order(10.0, "too many", REFUSED, TOO_MANY), order(20.0, "base", ACCEPTED, NOTHING)], 0),
        ([order(10.0, "too many", REFUSED, TOO_MANY), order(20.0, "base", ACCEPTED, "reloaded: virtual_cluster")], 1),
        ([order(10.0, "moved", REFUSED, TAKEN), order(20.0, "base", ACCEPTED, "reloaded: policy.name")], 1),
    ],
)
def test_answers(orders: list[Order], broken: int) -> None:
    assert len(judged(*orders)) == broken


def test_no_answer_is_explained_by_a_daemon_that_was_down() -> None:
    found = order(10.0, "moved", UNANSWERED, "no controller answers")
    assert judged(found, blind=Windows([Window(10.5, 12.0)])) == []
    assert len(judged(found, blind=Windows([Window(12.5, 13.0)]))) == 1


def test_a_restart_may_have_changed_what_is_in_force() -> None:
    orders = order(10.0, "moved", REFUSED, TAKEN), order(20.0, "base", ACCEPTED, "reloaded: virtual_cluster")
    assert judged(*orders, outages=[(12.0, 13.0)]) == []
    assert len(judged(*orders, outages=[(2.0, 3.0)])) == 1


# -- the queue around a reload -----------------------------------------------------------------------------------------------


def shown(time: float, waiting: str = "", running: str = "", **guaranteed: tuple[str, ...]) -> Shown:
    return Shown(time, frozenset(waiting), frozenset(running), guaranteed)


def seen(before: Shown, after: Shown) -> Around:
    return Around(before, (after, replace(after, time=after.time + 1)))


def test_only_samples_close_to_an_order_count() -> None:
    samples = [(time, shown(time + 0.2)) for time in (5.0, 9.0, 10.5, 11.5, 12.5)]
    found = around(samples, order(10.0, "moved"))
    assert found == Around(samples[1][1], (samples[3][1], samples[4][1])), "the cycle of 10.5 was before the answer"
    assert around(samples[:4], order(10.0, "moved")) is None
    assert around(samples[2:], order(10.0, "moved")) is None
    assert around(samples, order(100.0, "moved")) is None


def test_a_job_keeps_its_cells() -> None:
    before = shown(9.0, running="st", s=("gpu01",), t=("gpu02", "gpu03"))
    kept = seen(before, shown(12.0, running="st", s=("gpu01",), t=("gpu02", "gpu03")))
    less = seen(before, shown(12.0, running="st", t=("gpu02", "gpu03")))
    gone = seen(before, shown(12.0, running="t", t=("gpu02", "gpu03")))
    for layout in ("base", "moved"):
        assert took(kept, LAYOUTS[layout], TENANT_OF, GPUS, CALM) == []
        assert took(gone, LAYOUTS[layout], TENANT_OF, GPUS, CALM) == [], "it has ended"
        assert len(took(less, LAYOUTS[layout], TENANT_OF, GPUS, CALM)) == 1
    assert took(less, LAYOUTS["base"], TENANT_OF, GPUS, Windows([Window(10.0, 11.0)])) == []


def test_an_accepted_reload_that_takes_cells_is_reported() -> None:
    before = shown(9.0, running="st", s=("gpu01",), t=("gpu02", "gpu03"))
    less = seen(before, shown(12.0, running="st", s=("gpu01",)))
    assert "takes from it" in took(less, LAYOUTS["small"], TENANT_OF, GPUS, CALM)[0]
    without = replace(LAYOUTS["small"], tenants={})
    assert len(took(less, without, TENANT_OF, GPUS, CALM)) == 1


def test_cells_may_go_to_another_job_of_a_full_virtual_cluster() -> None:
    before = shown(9.0, waiting="t", running="sr", s=("gpu01",))
    less = seen(before, shown(12.0, running="st", t=("gpu02", "gpu03")))
    assert took(less, LAYOUTS["small"], TENANT_OF, GPUS, CALM) == []
    assert len(took(less, LAYOUTS["base"], TENANT_OF, GPUS, CALM)) == 1


def test_a_moved_job_belongs_to_the_virtual_cluster_of_its_new_account() -> None:
    """It lost the cells of speech, which loses nodes, when it was moved to another one, which has nodes for it."""
    before = replace(shown(9.0, running="s", s=("gpu01",)), accounts={"s": "robots"})
    less = seen(before, replace(shown(12.0, running="s"), accounts={"s": "robots"}))
    assert "of robots lost its cells" in took(less, LAYOUTS["small"], TENANT_OF, GPUS, CALM)[0]
    large = replace(before, sizes={"s": 8 * 12})
    assert took(Around(large, less.after), LAYOUTS["small"], TENANT_OF, GPUS, CALM) == []


def test_a_refusal_names_a_job() -> None:
    assert refused_job(REFUSAL) != ""
    assert refused_job(order(10.0, "moved", ACCEPTED, TAKEN)) == ""


REFUSAL = order(10.0, "moved", REFUSED, TAKEN)
HELD = seen(
    shown(9.0, running="st", s=("gpu01",), t=("gpu02", "gpu03")),
    shown(12.0, running="stu", s=("gpu01",), t=("gpu02", "gpu03"), u=("gpu04",)),
)


@pytest.mark.parametrize(
    ("after", "tenant_of", "job", "wrong"),
    [
        ("moved", TENANT_OF | {"u": "speech"}, "s", ""),  # four nodes are held, and three are left
        ("moved", TENANT_OF, "s", "keeps 3 nodes"),
        ("small", TENANT_OF, "s", ""),
        ("moved", TENANT_OF, "r", "no job of speech"),
        ("grown", TENANT_OF, "s", "loses no cells"),
        ("nodes", TENANT_OF, "s", ""),  # another VC's rack was in the way
    ],
)
def test_a_refusal_has_a_reason(after: str, tenant_of: dict[str, str], job: str, wrong: str) -> None:
    found = refused_wrongly(REFUSAL, LAYOUTS["base"], LAYOUTS[after], HELD, tenant_of, lambda *_: job)
    assert wrong in found
    assert bool(found) == bool(wrong)
    assert refused_wrongly(REFUSAL, LAYOUTS["base"], LAYOUTS[after], None, tenant_of, lambda *_: job) == ""


# -- published cells, ends, logs, restarts -----------------------------------------------------------------------------------


def sample(time: float, layout: Layout) -> Sample:
    return Sample(time, {}, (), {}, time - 0.5, {}, owned=layout.owned)


def test_the_controller_publishes_the_cells_of_the_configuration_in_force() -> None:
    found = stretches(recorded(order(10.0, "moved")), [], LAYOUTS)
    right = [sample(9.0, LAYOUTS["base"]), sample(10.7, LAYOUTS["base"]), sample(12.0, LAYOUTS["moved"])]
    assert cells(right, found, LAYOUTS) == ([], 2), "between the order and its answer either may be in force"
    assert len(cells([sample(12.0, LAYOUTS["base"])], found, LAYOUTS)[0]) == 1
    assert len(cells([sample(9.0, LAYOUTS["moved"])], found, LAYOUTS)[0]) == 1
    assert len(cells([replace(right[2], owned={})], found, LAYOUTS)[0]) == 1, "all jobs share all nodes"


@pytest.mark.parametrize(
    ("run", "broken"),
    [
        (EndedRun("a", 1.0, 11.0, "REQUEUED", False), 1),
        (EndedRun("a", 1.0, 11.0, "CANCELLED", False), 1),
        (EndedRun("a", 1.0, 11.0, "REQUEUED", True), 0),
        (EndedRun("a", 1.0, 11.0, "COMPLETED", False), 0),
        (EndedRun("a", 1.0, 30.0, "REQUEUED", False), 0),  # long after it
        (EndedRun("a", 10.5, 11.0, "REQUEUED", False), 0),  # it began after it
    ],
)
def test_no_run_ends_at_a_reload(run: EndedRun, broken: int) -> None:
    assert len(ended([run], [(10.0, 11.0)], CALM)[0]) == broken
    assert ended([run], [(10.0, 11.0)], Windows([Window(10.0, 12.0, "a")]))[0] == []


def test_an_invalid_file_is_refused_in_the_log() -> None:
    records = Records(hangups=[Hangup(10.0, 11.0, "no cells", ""), Hangup(20.0, 21.0, "no cells", "reload: ...")])
    assert len(unlogged(records, CALM)) == 1
    assert unlogged(records, Windows([Window(10.5, 12.0)])) == []


INVALID = Records([Version(0.0, 0.0, "base"), Version(10.0, 10.1, "no cells"), Version(20.0, 20.1, "base")])
LINE = "tiresias: /shared/1.toml: virtual cluster speech: count = 0 is not possible; give a whole number above 0"


def lives(*ends: tuple[float, int]) -> list[dict[str, Any]]:
    return [{"time": time, "life": at, "exit": code} for at, (time, code) in enumerate(ends)]


@pytest.mark.parametrize(
    ("ends", "cycles", "log", "broken"),
    [
        ([(5.0, -9), (12.0, -9), (13.0, 2), (40.0, 0)], [2.0, 7.0, 21.0], [LINE], 0),
        ([(5.0, -9), (12.0, -9), (13.0, 2), (40.0, 0)], [2.0, 7.0, 21.0], [], 1),
        ([(12.0, -9), (19.0, -9), (40.0, 0)], [2.0, 15.0, 21.0], [], 1),  # led with an invalid file
        ([(5.0, -9), (8.0, 2), (40.0, 0)], [2.0, 21.0], [], 1),  # refused a valid file
    ],
)
def test_a_controller_does_not_start_with_an_invalid_file(
    ends: list[tuple[float, int]], cycles: list[float], log: list[str], broken: int
) -> None:
    assert len(restarts(lives(*ends), INVALID, LAYOUTS, cycles, log)[0]) == broken


@pytest.mark.parametrize(
    ("layout", "lines", "broken"),
    [
        ("base", [], 0),
        ("base", [12.5], 1),
        ("without robots", [12.5], 0),
        ("without robots", [30.0], 1),
        ("moved", [], 0),
    ],
)
def test_a_restart_reports_cells_that_it_takes(layout: str, lines: list[float], broken: int) -> None:
    samples = [shown(9.0, running="r", r=("gpu01",)), shown(13.0, running="r")]
    found = stretches(Records([Version(0.0, 0.0, "base"), Version(8.0, 8.1, layout)]), [(10.0, 12.0)], LAYOUTS)
    assert len(lost([(10.0, 12.0)], lines, samples, found, LAYOUTS, TENANT_OF)[0]) == broken


def test_a_line_after_another_restart_is_not_of_the_one_before() -> None:
    """The file was changed, refused by a reload and read by the second controller."""
    samples = [shown(9.0, running="r", r=("gpu01",)), shown(13.0, running="r", r=("gpu01",))]
    found = stretches(Records([Version(0.0, 0.0, "base")]), [(10.0, 12.0)], LAYOUTS)
    judged = [(10.0, 12.0)], [14.0], samples, found, LAYOUTS, TENANT_OF
    assert len(lost(*judged)[0]) == 1
    assert lost(*judged, [(13.5, 15.0)])[0] == []


# -- the promises to guaranteed jobs ------------------------------------------------------------------------------------------


def test_a_grant_counts_from_the_reload_after_it() -> None:
    grant = Grant("8", 1000.0, 1030.0, frozenset({"gpu01"}))
    assert since_last([grant], lambda _: [-math.inf, 900.0, 1010.0, 1020.0, 1040.0]) == [replace(grant, decided=1020.0)]
    assert since_last([grant], lambda _: [-math.inf, 900.0]) == [grant]


def test_a_job_of_a_removed_virtual_cluster_has_no_cells() -> None:
    samples = [shown(float(time), running="r", r=("gpu01",)) for time in range(2)]
    assert overbooked(samples, TENANT_OF, lambda node: 0, LAYOUTS["base"].tenants) == []
    assert len(overbooked(samples, TENANT_OF, lambda node: 0, LAYOUTS["without robots"].tenants)) == 1
