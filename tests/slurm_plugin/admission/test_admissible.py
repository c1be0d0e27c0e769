"""The admission model by itself: obstacles, quotas, closed nodes; and what holds for any site and queue."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tiresias.slurm_plugin.admission.admissible import AdmissionResult, admission, not_restartable
from tiresias.slurm_plugin.backends.interface import NodeShare, SlurmJob
from tiresias.slurm_plugin.backends.slurm_rules import (
    Association,
    License,
    LimitUsage,
    Partition,
    Qos,
    Reservation,
    SlurmRules,
)

NOW = 1_000_000.0
NODES = ("gpu01", "gpu02")
WAITING = SlurmJob(
    id="1", raw_id=1, array_id=0, het_id=0, name="n", user="alice", uid=1, account="science", partition="gpu",
    state="PENDING", completing=False, reason="JobHeldAdmin", priority=0, restarts=0, submit_time=0, begin_time=0,
    start_time=0, end_time=0, time_limit=3600, gpus=1, gpu_type="", gpus_per_node=0, min_nodes=1, max_nodes=0, cpus=2,
    memory_per_node=0, memory_per_cpu=100, features="", required_nodes=(), excluded_nodes=(), shares=(), requeue=True,
    batch=True, reservation="", dependency="", exit_code=-1, qos="normal",
)  # fmt: skip
ENFORCE = frozenset({"associations", "limits", "qos"})


def waits(number: int, **fields: Any) -> SlurmJob:
    return replace(WAITING, **{"id": str(number), "raw_id": number, **fields})


def runs(number: int, **fields: Any) -> SlurmJob:
    share = NodeShare(NODES[number % 2], 1, 2, 200)
    return replace(waits(number), **{"state": "RUNNING", "start_time": int(NOW) - 60, "shares": (share,), **fields})


def site(*qos: Qos, **more: Any) -> SlurmRules:
    partitions = {"gpu": Partition("gpu", nodes=NODES), "other": Partition("other", nodes=NODES)}
    known = {one.name: one for one in qos or (Qos(name="normal"),)}
    return SlurmRules(**{"enforce": ENFORCE, "partitions": partitions, "qos": known, **more})


def judge(rules: SlurmRules, *jobs: SlurmJob, **more: Any) -> AdmissionResult:
    return admission(rules, jobs, [job for job in jobs if job.state == "PENDING"], NOW, **more)


def test_without_rules_nothing_is_in_the_way() -> None:
    assert judge(SlurmRules(), waits(1), runs(2)) == AdmissionResult()
    assert judge(site(Qos(name="normal", grp_jobs=0), enforce=frozenset()), waits(1)) == AdmissionResult()


def test_what_runs_is_taken_off_and_what_waits_shares_the_rest() -> None:
    found = judge(
        site(Qos(name="normal", grp_tres={"gres/gpu": 3})), runs(1), waits(2), waits(3, gpus=2), waits(4, gpus=3)
    )
    assert found.obstacle == {"4": "QOSGrpGRES"}
    assert found.quotas == (("QOSGrpGRES", 2.0, {"2": 1.0, "3": 2.0}),)


def test_a_limit_that_all_can_stay_within_is_no_quota() -> None:
    assert judge(site(Qos(name="normal", grp_tres={"gres/gpu": 3})), runs(1), waits(2), waits(3)).quotas == ()


def test_a_job_that_is_being_started_counts_as_if_it_ran() -> None:
    found = judge(site(Qos(name="normal", max_jobs_user=1)), waits(1), waits(2), starting=["1"])
    assert found.obstacle == {"2": "QOSMaxJobsPerUserLimit"}


def test_a_completing_job_holds_its_licences_but_no_limit() -> None:
    rules = site(Qos(name="normal", grp_jobs=1), licenses={"m": License("m", total=2)})
    ending = runs(1, state="COMPLETED", completing=True, licenses="m:2")
    found = judge(rules, ending, waits(2), waits(3, licenses="m"))
    assert found.obstacle == {"3": "Licenses"}


def test_a_throttle_counts_all_records_of_the_array() -> None:
    first = runs(1, array_id=9, id="9_0", array_limit=2)
    tasks = [waits(number, array_id=9, id=f"9_{number}") for number in (2, 3)]
    assert judge(SlurmRules(), first, *tasks).quotas == (("JobArrayTaskLimit", 1.0, {"9_2": 1.0, "9_3": 1.0}),)
    assert judge(SlurmRules(), first, runs(4, array_id=9), *tasks).obstacle == dict.fromkeys(
        ["9_2", "9_3"], "JobArrayTaskLimit"
    )


def test_a_reservation_closes_its_nodes_to_jobs_that_might_run_into_it() -> None:
    rules = site(reservations=(Reservation("r", NOW + 1800, NOW + 7200, ("gpu01",)),))
    found = judge(rules, waits(1), waits(2), waits(3, time_limit=600), waits(4, time_limit=0))
    assert found.closed == {"1": {"gpu01"}, "2": {"gpu01"}, "4": {"gpu01"}}
    assert found.closed["1"] is found.closed["2"]
    assert not found.obstacle
    assert found.changes_at == NOW + 1200  # the short job reaches it


def test_a_job_that_needs_the_reserved_node_cannot_start() -> None:
    rules = site(reservations=(Reservation("r", NOW - 5, NOW + 7200, ("gpu01",)),))
    found = judge(
        rules, waits(1, min_nodes=2), waits(2, required_nodes=("gpu01",)), waits(3, excluded_nodes=("gpu02",))
    )
    assert found.obstacle.keys() == {"1", "2", "3"}
    assert found.changes_at == NOW + 7200


def test_a_job_may_start_in_the_other_of_its_partitions() -> None:
    down = site()
    rules = replace(down, partitions={**down.partitions, "gpu": Partition("gpu", state="DOWN", nodes=NODES)})
    assert judge(rules, waits(1, partition="gpu,other")).obstacle == {}
    assert judge(rules, waits(1)).obstacle == {"1": "PartitionDown"}


def test_used_up_minutes_and_safe_limits() -> None:
    spent = Qos(name="normal", grp_tres_mins={"cpu": 100}, usage=LimitUsage(tres_mins={"cpu": 100}))
    assert judge(site(spent), waits(1)).obstacle == {"1": "QOSGrpCPUMinutesLimit"}
    rest = Qos(name="normal", grp_tres_mins={"cpu": 400}, usage=LimitUsage(tres_mins={"cpu": 100}))
    assert judge(site(rest), waits(1), waits(2), waits(3)) == AdmissionResult()
    found = judge(site(rest, enforce=ENFORCE | {"safe"}), waits(1), waits(2), waits(3, time_limit=0))
    assert found.obstacle == {"3": "QOSGrpCPUMinutesLimit"}
    assert judge(site(rest, enforce=ENFORCE | {"safe"}), *map(waits, (1, 2, 3))).quotas[0].left == 300


def test_groups_count_at_each_level_of_accounts() -> None:
    chain = {
        ("science", "", ""): Association(account="science", parent="root", grp_tres={"gres/gpu": 5}),
        ("root", "", ""): Association(account="root", grp_jobs=2),
    }
    found = judge(site(associations=chain), runs(1, account="root"), waits(2), waits(3))
    assert found.quotas == (("AssocGrpJobsLimit", 1.0, {"2": 1.0, "3": 1.0}),)


def test_a_running_job_frees_what_it_counts_when_it_starts_again() -> None:
    used = LimitUsage(jobs=1, tres_run_mins={"cpu": 120})
    rules = site(Qos(name="normal", grp_jobs=1, grp_tres_run_mins={"cpu": 130}, usage=used))
    assert not_restartable(rules, [runs(1)], NOW) == {}
    rules = replace(rules, reservations=(Reservation("m", NOW + 60, NOW + 99, NODES, frozenset({"MAINT"})),))
    assert not_restartable(rules, [runs(1)], NOW) == {"1": "ReqNodeNotAvail"}
    assert not_restartable(rules, [runs(1), runs(2, time_limit=30)], NOW) == {"1": "ReqNodeNotAvail"}


def test_a_deleted_qos() -> None:
    assert judge(site(), waits(1, qos="gone")).obstacle == {"1": "InvalidQOS"}


NUMBERS = st.integers(0, 5).map(float)
TRES = st.dictionaries(
    st.sampled_from(["cpu", "mem", "node", "gres/gpu", "gres/gpu:v100", "license/m", "billing"]), NUMBERS
)
QOS = st.builds(
    Qos, name=st.sampled_from(["normal", "part"]), flags=st.sets(st.just("OverPartQOS")).map(frozenset),
    grp_jobs=NUMBERS | st.just(math.inf), max_jobs_user=NUMBERS | st.just(math.inf), grp_tres=TRES, max_tres_user=TRES,
    grp_tres_run_mins=TRES, grp_tres_mins=TRES, max_tres=TRES, max_tres_node=TRES, min_tres=TRES,
    usage_factor=st.sampled_from([0.0, 1.0]),
    grp_wall=NUMBERS | st.just(math.inf), usage=st.builds(LimitUsage, wall=NUMBERS, tres_mins=TRES, tres_run_mins=TRES),
)  # fmt: skip
ASSOCIATIONS = st.builds(
    Association, account=st.just("science"), grp_tres=TRES, grp_jobs=NUMBERS, max_tres=TRES, max_jobs=NUMBERS
)
WINDOWS = st.builds(
    Reservation,
    name=st.just("r"),
    start=st.floats(NOW - 9, NOW + 9000),
    end=st.floats(NOW - 9, NOW + 9999),
    nodes=st.lists(st.sampled_from(NODES)).map(tuple),
)
RULES = st.builds(
    lambda qos, one, windows, enforce: site(
        *qos,
        reservations=tuple(windows),
        associations={("science", "", ""): one},
        licenses={"m": License("m", total=2)},
        partitions={"gpu": Partition("gpu", nodes=NODES, qos="part")},
        enforce=ENFORCE | enforce,
    ),
    st.lists(QOS, max_size=2),
    ASSOCIATIONS,
    st.lists(WINDOWS, max_size=3),
    st.sampled_from([frozenset[str](), frozenset({"safe"})]),
)


def _numbered(makes: list[Callable[[int], SlurmJob]]) -> list[SlurmJob]:
    return [make(number) for number, make in enumerate(makes)]


JOBS = st.lists(
    st.builds(
        lambda make, **fields: lambda number: make(number, **fields),
        st.sampled_from([waits, waits, runs]),
        gpus=st.integers(0, 3),
        cpus=st.integers(0, 3),
        time_limit=st.sampled_from([0, 60, 3600]),
        licenses=st.sampled_from(["", "m", "m:2"]),
        qos=st.sampled_from(["normal", "part", ""]),
        user=st.sampled_from(["alice", "bob"]),
        gpu_type=st.sampled_from(["", "v100"]),
        min_nodes=st.integers(1, 3),
    ),
    max_size=8,
).map(_numbered)


@given(RULES, JOBS, st.randoms(use_true_random=False))
def test_the_order_of_jobs_changes_nothing(rules: SlurmRules, jobs: list[SlurmJob], chance: Any) -> None:
    first = judge(rules, *jobs)
    mixed = list(jobs)
    chance.shuffle(mixed)
    second = judge(rules, *mixed)
    assert (first.obstacle, first.closed, first.changes_at) == (second.obstacle, second.closed, second.changes_at)
    as_set = [
        {(one.reason, one.left, tuple(sorted(one.amounts.items()))) for one in found.quotas}
        for found in (first, second)
    ]
    assert as_set[0] == as_set[1]


@given(RULES, JOBS)
def test_a_quota_binds_and_each_member_fits_alone(rules: SlurmRules, jobs: list[SlurmJob]) -> None:
    found = judge(rules, *jobs)
    for quota in found.quotas:
        assert 0 <= quota.left < sum(quota.amounts.values())
        assert all(0 < amount <= quota.left for amount in quota.amounts.values())
        assert not quota.amounts.keys() & found.obstacle.keys()
    assert all(found.obstacle.values())
    assert found.changes_at > NOW


def without_group_nodes(rules: SlurmRules) -> SlurmRules:
    def less(tres: Mapping[str, float]) -> dict[str, float]:
        return {name: amount for name, amount in tres.items() if name != "node"}

    qos = {
        name: replace(one, grp_tres=less(one.grp_tres), max_tres_user=less(one.max_tres_user))
        for name, one in rules.qos.items()
    }
    groups = {name: replace(one, grp_tres=less(one.grp_tres)) for name, one in rules.associations.items()}
    return replace(rules, qos=qos, associations=groups)


@given(RULES, JOBS)
def test_fewer_running_jobs_are_never_in_the_way_of_more(rules: SlurmRules, jobs: list[SlurmJob]) -> None:
    """Not so for the nodes of a group: a job adds none where it shares a node that the group uses already."""
    rules = without_group_nodes(rules)
    waiting = [job for job in jobs if job.state == "PENDING"]
    assert judge(rules, *waiting).obstacle.keys() <= judge(rules, *jobs).obstacle.keys()
