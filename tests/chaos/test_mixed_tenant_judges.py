"""What the campaign with virtual clusters judges of `--mixed`, on made-up runs: each judge reports violations, and nothing else."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.chaos import mixed_tenant_judges as judges
from tests.chaos.checks import LoggedRun
from tests.chaos.guarantees import Grant, Shown, crossed, kept_out, since_last
from tests.chaos.mixed_tenant_judges import Condition, Move
from tests.chaos.mixed_tenant_workload import KINDS, MixedJob, mixed_tenant_jobs
from tests.chaos.mixed_tenants import shown
from tests.chaos.samples import Sample, Waiting
from tests.chaos.scene import Scene, Submitted
from tests.chaos.tenants import GPUS_PER_NODE, OUTSIDE, OWNED, Tenant
from tests.chaos.windows import Windows

TENANTS = {"vision": Tenant("vision", 2, in_one_rack=True), "speech": Tenant("speech", 1)}


def run(name: str, number: str, start: int, end: int, **more: Any) -> LoggedRun:
    fields: dict[str, Any] = {"state": "COMPLETED", "submit": 0, "limit": 0.0, "managed": True, "gpus": 1} | more
    return LoggedRun(number, 1, name, start=start, end=end, **fields)


def test_submissions_that_tsbatch_refused_are_reported() -> None:
    errors = {
        "a": "",
        "b": "tiresias: --elastic contradicts --gpus",
        "c": "sbatch: error: Unable to contact slurm controller",
    }
    submitted = {name: Submitted("7", 1.0, error) for name, error in errors.items()}
    assert judges.refused(submitted.items()) == ["b: tiresias: --elastic contradicts --gpus"]


@pytest.mark.parametrize(("begin", "broken"), [(9, 1), (10, 0), (11, 0)])
def test_more_tasks_than_the_throttle_permits_are_reported(begin: int, broken: int) -> None:
    runs = [run("a", "7_0", 0, 10), run("a", "7_1", begin, 20), run("a", "8_0", 0, 30), run("b", "9_0", 0, 30)]
    assert len(list(judges.throttled(runs, {"a": 1}))) == broken
    assert list(judges.throttled(runs, {"a": 2})) == [], "submitted twice: two arrays of one name"


@pytest.mark.parametrize(
    ("throttled", "other", "decided"),
    [
        ({"a"}, "7_1", 1020.0),
        ({"b"}, "7_1", 1000.0),
        ({"a"}, "8_1", 1000.0),  # another array
        ({"a"}, "7_0", 1000.0),  # the task itself
    ],
)
def test_a_task_that_the_throttle_kept_back_is_not_late(throttled: set[str], other: str, decided: float) -> None:
    grant, runs = Grant("7_0", 1000.0, 1020.0, frozenset({"gpu01"})), [run("a", other, 1001, 1020)]
    found = since_last([grant], lambda one: judges.moments_of_other_tasks(runs, throttled, one.job))
    assert [one.decided for one in found] == [decided]


@pytest.mark.parametrize(
    ("kind", "start", "parents", "broken"),
    [
        ("afterany", 10, [run("p", "7", 0, 10, state="FAILED")], 0),
        ("afterany", 9, [run("p", "7", 0, 10)], 1),
        ("afterany", 5, [run("p", "7", 0, 4, state="REQUEUED"), run("p", "7", 6, 10)], 1),
        ("afterany", 5, [run("p", "8", 0, 10)], 0),  # another job of this name
        ("afterok", 10, [run("p", "7", 0, 10)], 0),
        ("afterok", 10, [run("p", "7", 0, 10, state="FAILED")], 1),
        ("afterok", 10, [], 1),
    ],
)
def test_a_dependent_job_starts_after_its_condition(
    kind: str, start: int, parents: list[LoggedRun], broken: int
) -> None:
    conditions = {"d": Condition(kind, "p", "7")}
    runs = [*parents, run("d", "9", start, start + 5)]
    assert len(list(judges.before_others(runs, conditions))) == broken
    assert list(judges.before_others(parents, conditions)) == [], "it did not run"


def test_all_tasks_of_an_array_have_to_complete_before_a_dependent_job() -> None:
    conditions = {"d": Condition("afterok", "p", "7", 2)}
    one, two, own = run("p", "7_0", 0, 5), run("p", "7_1", 0, 6), run("d", "9", 6, 9)
    assert list(judges.before_others([one, two, own], conditions)) == []
    assert len(list(judges.before_others([one, own], conditions))) == 1


def test_only_stated_sizes_are_permitted() -> None:
    runs = [run("e", "7", 0, 5, gpus=2), run("e", "7", 6, 9, gpus=3), run("other", "8", 0, 5, gpus=3)]
    ((name, words),) = judges.other_sizes(runs, {"e": frozenset({2, 4})})
    assert name == "e"
    assert "had 3 GPUs" in words


def test_an_elastic_job_in_cells_has_no_more_gpus_than_its_tenant() -> None:
    in_cells = [
        ("e", 8, "speech"),
        ("e", 16, "speech"),
        ("e", 16, "vision"),
        ("e", 8, OUTSIDE),
        ("plain", 16, "speech"),
    ]
    found = list(judges.beyond_cells(in_cells, {"e": frozenset({8, 16})}, {"vision": 2, "speech": 1}))
    assert [words.partition(" GPUs")[0] for _, words in found] == ["e had 16", "e had 8"]


def test_changes_of_the_size_of_one_job_are_counted() -> None:
    """Another job of the same name, after a submission without an answer, has sizes of its own."""
    runs = [run("e", "7", at, at + 1, gpus=gpus) for at, gpus in enumerate((2, 2, 4, 2))]
    runs += [run("e", "8", 9, 10, gpus=8), run("fixed", "9", 0, 5, gpus=1), run("fixed", "9", 6, 9, gpus=2)]
    assert judges.size_changes(runs, {"e": frozenset({2, 4, 8})}) == [("e", 2, 4), ("e", 4, 2)]


def test_a_large_campaign_without_a_change_of_size_is_reported() -> None:
    assert len(judges.same_sizes(100, [])) == 1
    assert judges.same_sizes(99, []) == []
    assert judges.same_sizes(200, [("e", 2, 4)]) == []


def mixed(name: str = "a", **more: Any) -> MixedJob:
    fields: dict[str, Any] = {"tenant": "vision", "gpus": 8} | more
    return MixedJob(name, "bob", [], 0.0, **fields)


@pytest.mark.parametrize(
    ("job", "nodes", "broken"),
    [
        (mixed(required="gpu01"), ("gpu01",), 0),
        (mixed(required="gpu01"), ("gpu02",), 1),
        (mixed(excluded="gpu01"), ("gpu01",), 1),
        (mixed(excluded="gpu01"), ("gpu02",), 0),
        (mixed(rack=1), ("gpu02",), 0),
        (mixed(rack=2), ("gpu02",), 1),
        (mixed(), ("gpu02",), 0),
    ],
)
def test_a_run_is_on_the_hardware_that_its_job_names(job: MixedJob, nodes: tuple[str, ...], broken: int) -> None:
    found = judges.wrong_nodes([run("a", "7", 0, 5, nodes=nodes)], {"a": job}, lambda node: int(node[3:]) // 4)
    assert len(list(found)) == broken


def test_other_numbers_of_nodes_than_requested_are_reported() -> None:
    runs = [run("a", "7", 0, 5, nodes=("gpu01", "gpu02")), run("b", "8", 0, 5, nodes=("gpu01",))]
    assert list(judges.node_counts(runs, {"a": {1, 2}})) == []
    assert [name for name, _ in judges.node_counts(runs, {"a": {1}, "b": {1}})] == ["a"]


def test_runs_are_charged_to_the_account_of_their_job() -> None:
    moved = Move("a", "7", 8.0, "speech")
    first, second = run("a", "7", 0, 5, account="vision"), run("a", "7", 10, 15, account="speech")
    assert list(judges.uncharged([first, second], [("7", 0.4, "vision"), ("7", 10.0, "speech")], [moved])) == []
    assert len(list(judges.uncharged([first, second], [("7", 0.4, "vision"), ("7", 10.0, "vision")], [moved]))) == 1
    forgotten = run("a", "7", 10, 15, account="vision")
    assert len(list(judges.uncharged([first, forgotten], [], [moved]))) == 1


def test_a_move_in_the_second_of_a_start_may_count_for_it() -> None:
    """Slurm logged 39 for a start at 40.0, after a move at 39.99."""
    moves = [Move("a", "7", 31.2, "vision"), Move("a", "7", 40.1, "speech")]
    for account, broken in (("speech", 0), ("vision", 0), ("robots", 1)):
        assert len(list(judges.uncharged([run("a", "7", 39, 47, account=account)], [], moves))) == broken
    assert len(list(judges.uncharged([run("a", "7", 37, 47, account="speech")], [], moves))) == 1


def test_cells_of_another_tenant_are_reported() -> None:
    tree = [
        {
            "type": "leaf",
            "parts": [{"type": "node", "jobs": [["7", 8]]}, {"type": "node", "jobs": [["7", 8], ["8", 2]]}],
        }
    ]
    report = {"virtual_clusters": [{"name": "vision", "cells": tree}, {"name": "speech"}]}

    def broken(**accounts: set[str]) -> int:
        known = {"7": {"vision"}, "8": {"vision"}} | {job[1:]: of for job, of in accounts.items()}
        found, judged = judges.foreign_cells([(1.0, report)], lambda job, _: known[job], lambda *_: "a")
        assert judged == sum(map(bool, known.values()))
        return len(found)

    assert broken() == 0
    assert broken(_8={"speech"}) == 1
    assert broken(_8={"vision", "speech"}) == 0, "it was moved at that moment"
    assert broken(_8=set()) == 0, "no sample shows it"


def sample(names: dict[str, str], pending: dict[str, str], nodes: dict[str, str], accounts: dict[str, str]) -> Sample:
    waiting = tuple(Waiting(number, names[number], "bob", reason) for number, reason in pending.items())
    return Sample(1000.0, names, waiting, {}, 1000.0, {}, nodes, frozenset(nodes), accounts=accounts)


def test_tasks_are_shown_one_by_one_and_waiting_ones_as_their_throttle_permits() -> None:
    names = dict.fromkeys(("7_0", "7_1", "7_2"), "a") | dict.fromkeys(("8_0", "8_1"), "b") | {"9": "d"}
    pending = {"7_1": "JobHeldAdmin", "7_2": "JobHeldAdmin", "8_1": "JobHeldAdmin", "9": "Dependency"}
    jobs = {"a": mixed(throttle=1, gpus=2), "b": mixed("b", gpus=2), "d": mixed("d")}
    found = shown(sample(names, pending, {"7_0": "gpu01", "8_0": "gpu[01-02]"}, dict.fromkeys(names, "vision")), jobs)
    assert found.waiting == {"b_1"}
    assert found.running == {"a_0", "b_0"}
    assert found.guaranteed == {"a_0": ("gpu01",), "b_0": ("gpu01", "gpu02")}
    assert (found.sizes["a_0"], found.sizes["b_0"], found.sizes["b_1"]) == (8, 16, 2)
    double = shown(sample(names, pending, {"7_0": "gpu01"}, {}), jobs | {"a": mixed(throttle=2, gpus=2)})
    assert {"a_0", "a_1"} <= double.running
    assert "a_2" not in double.running


def test_elastic_jobs_and_those_of_whole_nodes_count_with_what_they_may_take() -> None:
    names = {"7": "e", "8": "x", "9": "named", "10": "het"}
    jobs = {"e": mixed("e", gpus=2, sizes=frozenset({2, 12})), "x": mixed("x", exclusive=True, gpus=9)}
    jobs |= {"named": mixed("named", required="gpu01"), "het": mixed("het", foreign=True)}
    found = shown(sample(names, dict.fromkeys(names, "JobHeldAdmin"), {}, {"7": "vision", "8": OUTSIDE}), jobs)
    assert (found.sizes["e"], found.sizes["x"]) == (12, 16)
    assert found.waiting == {"e", "x"}
    assert found.running == {"named"}
    assert found.accounts == {"e": "vision", "x": ""}


def moved_samples(account: str, seconds: int = 60) -> list[Shown]:
    nothing = frozenset[str]()
    return [Shown(1000.0 + at, frozenset({"a"}), nothing, {}, {"a": account}) for at in range(seconds)]


def test_a_moved_job_is_judged_by_the_cells_of_its_new_tenant() -> None:
    """It has two nodes in vision, and more than speech owns."""
    of, gpus = {"a": "vision"}, {"a": 2 * GPUS_PER_NODE}
    assert len(kept_out(moved_samples("vision"), of, gpus, 6.0, Windows(), TENANTS)[0]) == 1
    assert kept_out(moved_samples("speech"), of, gpus, 6.0, Windows(), TENANTS)[0] == []


def test_a_preemption_at_the_moment_of_a_move_is_not_judged() -> None:
    of, gpus, nothing = {"a": "vision", "b": "vision"}, {"a": 8, "b": 8}, frozenset[str]()
    first, after = (
        Shown(at, nothing, frozenset({"a", "b"}), {}, {"b": account}) for at, account in ((0, "vision"), (1, "speech"))
    )
    victim = [("a", "b", 0.5)]
    assert crossed(victim, [first, first], of, gpus, TENANTS) == []
    assert crossed(victim, [first, after], of, gpus, TENANTS) == []
    assert len(crossed(victim, [after, after], of, gpus, TENANTS)) == 1


def test_the_workload_has_all_kinds_of_jobs_and_their_requests() -> None:
    nodes = [f"gpu{number:02}" for number in range(1, 13)]
    scene = Scene.__new__(Scene)
    scene.cluster = cast(Any, SimpleNamespace(spec=SimpleNamespace(node_names=nodes)))
    dice = random.Random(1)
    jobs = [job for number in range(20) for job in mixed_tenant_jobs(scene, dice, number, 0.0)]
    kinds = Counter(job.kind for job in jobs)
    assert kinds.keys() == {kind.__name__ for kind in KINDS}
    assert kinds["plain"] < len(jobs) / 2
    for job in jobs:
        assert f"--account={job.tenant}" in job.command
        assert (job.tenant in OWNED) or job.kind == "plain"
        assert (
            job.foreign
            or job.kind in ("plain", "elastic_tasks", "elastic_nodes")
            or f"--nodes={job.nodes}" in job.command
        )
        assert bool(job.sizes) == job.kind.startswith("elastic")
        assert not job.parent or job.command[5] == job.parent
