"""Limits of users and accounts, the order of waiting jobs, and what is refused with which line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.services.parameter_service.manager.test_registered_jobs import KEY, SIZES, Manager
from tiresias.errors import Unavailable, UsageError
from tiresias.services.parameter_service.assignment.assignment_rules import NoAggregatorLeft
from tiresias.services.parameter_service.assignment.loss_feedback import LossVerdict
from tiresias.services.parameter_service.manager.arrival_order import (
    FORGOTTEN_AFTER_S,
    MAX_WAITING_OF_A_USER,
    ArrivalOrder,
)
from tiresias.services.parameter_service.manager.job_accounts import account_of
from tiresias.services.parameter_service.manager.job_admission import MAX_TENSOR_BYTES, JobAdmission
from tiresias.services.parameter_service.manager.manager_settings import read_manager_settings
from tiresias.services.parameter_service.manager.registration_port import Registration
from tiresias.services.parameter_service.manager.use_limits import UNLIMITED_USE, OverLimit, UseLimits

ALICE, BOB, CAROL = 1000, 1001, 1002


class Admitting(Manager):
    """The jobs of a manager, with their admission."""

    def __init__(
        self, folder: Path, budget: int = 8, user: UseLimits = UNLIMITED_USE, account: UseLimits = UNLIMITED_USE
    ) -> None:
        super().__init__(folder, budget)
        self.admission = JobAdmission(self.jobs, self.clusters, self.journal, user, account)

    def register(self, job: str, uid: int, servers: int = 1, now_s: float = 0.0, account: str = "") -> bool:
        """Return whether the job is registered, False where it waits for the budget."""
        try:
            self.admission.register(Registration(job, uid, KEY, servers, 1, account), now_s)
        except NoAggregatorLeft:
            return False
        return True

    def used(self, uid: int) -> float:
        found = self.admission.aggregators_of_jobs()
        return sum(found[job] for job, row in self.jobs.rows.items() if row.uid == uid)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


def refusal(manager: Admitting, job: str, uid: int, servers: int = 1, account: str = "") -> str:
    with pytest.raises((UsageError, OverLimit)) as caught:
        manager.register(job, uid, servers, account=account)
    never = isinstance(caught.value, UsageError)
    assert never != isinstance(caught.value, Unavailable), "a client repeats what is refused for now"
    return f"{'never' if never else 'later'}: {caught.value}"


def test_a_user_has_limits(folder: Path) -> None:
    manager = Admitting(folder, 8, UseLimits(aggregators=0.5, jobs=3))
    assert manager.register("a", ALICE, 3)
    assert refusal(manager, "b", ALICE, 2) == (
        "later: per_user: user 1000 may use 4 aggregators: 3 are used, and this job needs 2"
    )
    assert refusal(manager, "b", ALICE, 5) == (
        "never: per_user: user 1000 may use 4 aggregators; this job declares 5 servers"
    )
    assert manager.register("b", ALICE, 1)
    assert manager.register("c", BOB, 4)
    manager.jobs.end("a")
    assert manager.register("d", ALICE)
    assert manager.register("e", ALICE)
    assert refusal(manager, "f", ALICE) == "later: per_user: user 1000 may have 3 jobs: 3 are registered"
    assert manager.register("e", ALICE), "repeated"
    manager.journal.close()


def test_an_account_has_limits(folder: Path) -> None:
    manager = Admitting(folder, 8, account=UseLimits(aggregators=2))
    assert manager.register("a", ALICE, 2, account="science")
    assert refusal(manager, "b", BOB, account="science") == (
        "later: per_account: account science may use 2 aggregators: 2 are used, and this job needs 1"
    )
    assert manager.register("b", BOB, 2, account="arts")
    manager.restart()
    again = JobAdmission(manager.jobs, manager.clusters, manager.journal, per_account=UseLimits(aggregators=2))
    with pytest.raises(OverLimit):
        again.register(Registration("c", CAROL, KEY, 1, 1, "arts"), 0.0)
    manager.journal.close()


def test_the_bytes_of_a_users_tensors_are_limited(folder: Path) -> None:
    manager = Admitting(folder, 8, UseLimits(bytes=2000))
    for job in ("a", "b"):
        assert manager.register(job, ALICE)
    manager.admission.check_tensors("a", SIZES)  # 1505 bytes
    manager.jobs.init("a", SIZES)
    manager.admission.check_tensors("a", SIZES)
    with pytest.raises(UsageError) as caught:
        manager.admission.check_tensors("b", SIZES)
    assert (
        str(caught.value)
        == "per_user: user 1000 may have tensors of 2000 bytes: 1505 are used, and this job needs 1505"
    )
    with pytest.raises(UsageError, match="a tensor of more than"):
        manager.admission.check_tensors("b", {"t": MAX_TENSOR_BYTES + 1})
    bound = manager.admission.memory_bound("a")
    assert bound is not None
    assert 7 * 1505 < bound < 7 * 1505 + (len(SIZES) << 20)
    assert Admitting(folder.with_name("other"), 8).admission.memory_bound("a") is None
    manager.journal.close()


def test_shared_aggregators_count_by_work(folder: Path) -> None:
    manager = Admitting(folder)
    manager.assigned("a")
    manager.assigned("b")
    used = manager.admission.aggregators_of_jobs()
    assert sum(used.values()) == pytest.approx(2)
    assert used["a"] == pytest.approx(1)
    manager.journal.close()


def test_a_budget_of_zero_takes_no_jobs(folder: Path) -> None:
    assert refusal(Admitting(folder, 0), "a", ALICE) == "never: the service takes no new jobs: its budget is 0"
    manager = Admitting(folder, 2)
    assert (
        refusal(manager, "a", ALICE, 3) == "never: the service has 2 aggregators at most; this job declares 3 servers"
    )
    manager.journal.close()


def test_the_order_of_arrival_survives_another_manager(folder: Path) -> None:
    """Three wait; the next manager has their order, gives each the time to repeat, and forgets those that do not."""
    manager = Admitting(folder, 1)
    assert manager.register("first", ALICE)
    for now_s, (job, uid) in enumerate((("b", BOB), ("a", CAROL), ("c", BOB)), 1000):
        assert not manager.register(job, uid, now_s=float(now_s))
    manager.restart()
    manager.admission = JobAdmission(manager.jobs, manager.clusters, manager.journal)
    manager.jobs.end("first")
    assert manager.admission.waiting(5.0) == 3
    assert not manager.register("new", CAROL, now_s=5.0), "it comes after those that waited"
    assert not manager.register("a", CAROL, now_s=6.0)
    assert manager.register("b", BOB, now_s=7.0), "the first of those that waited"
    manager.jobs.end("b")
    assert manager.register("a", CAROL, now_s=7.5)
    manager.jobs.end("a")
    assert [row.job for row in manager.journal.waiting()] == ["c", "new"]
    assert manager.register("new", CAROL, now_s=20.5), "c has not repeated its registration for 15 s"
    assert manager.journal.waiting() == []
    manager.journal.close()


def test_no_user_above_an_equal_share_while_another_waits(folder: Path) -> None:
    manager = Admitting(folder, 4)
    for number in range(4):
        assert manager.register(f"a{number}", ALICE)
    assert not manager.register("a4", ALICE, now_s=1)
    assert not manager.register("b0", BOB, now_s=2)
    manager.jobs.end("a0")
    assert not manager.register("a4", ALICE, now_s=3), "alice would have 4 of 4, bob waits"
    assert manager.register("b0", BOB, now_s=3)
    assert not manager.register("b1", BOB, now_s=4)
    manager.jobs.end("a1")
    assert not manager.register("a4", ALICE, now_s=5)
    assert manager.register("b1", BOB, now_s=5)
    assert (manager.used(ALICE), manager.used(BOB)) == (2, 2)
    manager.jobs.end("b0")
    assert manager.register("b2", BOB, now_s=6), "within the share, though a4 waited first"
    for job in ("b1", "b2"):
        manager.jobs.end(job)
    assert manager.register("a4", ALICE, now_s=7), "no other job waits"
    assert manager.used(ALICE) == 3
    manager.journal.close()


def test_spare_aggregators_are_used_before_the_next_scaling(folder: Path) -> None:
    manager = Admitting(folder, 2)
    manager.assigned("a")
    before = manager.allocated
    manager.jobs.end("a")
    assert manager.register("b", BOB, 2)
    assert (manager.allocated, sorted(manager.clusters.reserved("b"))) == (before, before)
    manager.restart()
    assert sorted(manager.clusters.reserved("b")) == before
    manager.journal.close()


def test_a_job_that_is_not_repeated_holds_no_place(folder: Path) -> None:
    manager = Admitting(folder, 1)
    assert manager.register("a", ALICE)
    assert not manager.register("b", BOB, now_s=0)
    assert manager.admission.waiting(0) == 1
    manager.jobs.end("a")
    assert not manager.register("c", CAROL, now_s=FORGOTTEN_AFTER_S)
    assert manager.register("c", CAROL, now_s=FORGOTTEN_AFTER_S + 0.1)
    assert manager.admission.waiting(FORGOTTEN_AFTER_S + 0.1) == 0
    manager.journal.close()


def test_the_places_of_a_user_are_bounded() -> None:
    order = ArrivalOrder()
    for number in range(1000):
        order.wait(f"a{number}", ALICE, 1, 0.0)
    order.wait("b", BOB, 1, 0.0)
    order.wait("a0", BOB, 1, 0.0)  # another user's place stays
    assert (order.count, order.users()) == (MAX_WAITING_OF_A_USER + 1, {ALICE, BOB})


def test_a_revert_does_not_exceed_a_limit(folder: Path) -> None:
    manager = Admitting(folder, 8, UseLimits(aggregators=2))
    manager.assigned("a")
    verdicts = {manager.jobs.observe("a", 9.0) for _ in range(100)}
    assert LossVerdict.REVERT not in verdicts
    manager.journal.close()


def test_a_run_of_another_size_is_a_new_job(folder: Path) -> None:
    manager = Admitting(folder, 4)
    manager.assigned("a")  # of user 1000, with 2 servers and 2 workers
    for _ in range(100):
        manager.jobs.observe("a", 1.01)
    assert manager.jobs.speed("a")[0] is not None
    again = Registration("a", ALICE, KEY, 2, 2)
    manager.admission.register(again, 0.0)
    assert manager.jobs.speed("a")[0] is not None, "the same size: nothing changes"
    for stranger in (again._replace(uid=BOB, workers=3), again._replace(key=KEY[::-1], workers=3)):
        with pytest.raises(UsageError, match="registered already"):
            manager.admission.register(stranger, 0.0)
    manager.admission.register(again._replace(workers=3), 0.0)
    assert (manager.jobs.workers("a"), manager.jobs.speed("a"), manager.jobs.target("a")) == (3, (None, None), {})
    with pytest.raises(UsageError, match="4096 workers"):
        manager.admission.register(again._replace(workers=5000), 0.0)
    assert manager.jobs.workers("a") == 3
    manager.journal.close()


@given(
    events=st.lists(
        st.tuples(st.sampled_from([ALICE, BOB, CAROL]), st.integers(1, 2), st.booleans(), st.integers(0, 9)),
        max_size=40,
    )
)
def test_free_aggregators_are_shared_by_those_who_wait(
    events: list[tuple[int, int, bool, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    manager, waiting = Admitting(tmp_path_factory.mktemp("state"), 5), dict[str, tuple[int, int]]()
    noted = set[str]()  # refused before
    for at, (uid, servers, ends, which) in enumerate(events):
        if ends and manager.jobs.rows:
            manager.jobs.end(sorted(manager.jobs.rows)[which % len(manager.jobs.rows)])
        else:
            waiting[f"j{at}"] = (uid, servers)
        for job in [*waiting, *reversed(waiting)]:
            if job in waiting and _registered(manager, waiting, noted, job, at):
                del waiting[job]
        assert manager.clusters.allocated <= 5
        assert not waiting or manager.clusters.left < max(count for _, count in waiting.values())
    manager.journal.close()


def _registered(manager: Admitting, waiting: dict[str, tuple[int, int]], noted: set[str], job: str, at: int) -> bool:
    """Try to register a job; assert that it passes no job of another user within its equal share."""
    owner, count = waiting[job]
    users = {row.uid for row in manager.jobs.rows.values()} | {waiting[each][0] for each in noted & waiting.keys()}
    share = 5 / len(users | {owner})
    within = [
        each
        for each in noted & waiting.keys()
        if waiting[each][0] != owner and manager.used(waiting[each][0]) + waiting[each][1] <= share
    ]
    if not manager.register(job, owner, count, now_s=0.001 * at):
        noted.add(job)
        return False
    assert manager.used(owner) <= share or not within, (job, within)
    return True


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (3, "is no object of aggregators, jobs, bytes"),
        ({"gpus": 1}, "is no object of aggregators, jobs, bytes"),
        ({"jobs": 0}, "jobs = 0; give a whole number above 0"),
        ({"jobs": 1.5}, "jobs = 1.5; give a whole number above 0"),
        ({"bytes": True}, "bytes = True; give a whole number above 0"),
        ({"aggregators": -0.5}, "aggregators = -0.5; give a number above 0"),
        ({"aggregators": float("inf")}, "aggregators = inf; give a number above 0"),
        ({"aggregators": "all"}, "aggregators = 'all'; give a number above 0"),
    ],
)
def test_wrong_limits_are_one_line(value: object, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "manager.json"
    texts = ("manager", "state", "listen", "registration", "publish", "announce", "script", "service_key_file")
    content = {**dict.fromkeys(texts, "x"), "budget": 4}
    file.write_text(json.dumps({**content, "per_user": value}))
    with pytest.raises(UsageError) as caught:
        read_manager_settings(file)
    assert str(caught.value) == f"{file}: per_user: {problem}"
    file.write_text(json.dumps({**content, "protect": "tls"}))
    with pytest.raises(UsageError, match=r"manager.json: protect is none or mac"):
        read_manager_settings(file)
    file.write_text(json.dumps({**content, "per_user": {"aggregators": 0.25, "jobs": 3}}))
    assert read_manager_settings(file).per_user.number_of_aggregators(8) == 2


SQUEUE = """#!/bin/sh
case "$*" in
  *--jobs=7*) echo '1000|science' ;;
  *--jobs=8*) echo '1000|(null)' ;;
  *) echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1 ;;
esac
"""


def test_the_account_is_that_of_the_users_own_slurm_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "squeue").write_text(SQUEUE)
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert (account_of(7, ALICE), account_of(8, ALICE)) == ("science", "")
    for slurm_job, uid in ((7, BOB), (9, ALICE), (0, ALICE), (-7, ALICE)):
        with pytest.raises(UsageError, match="per_account"):
            account_of(slurm_job, uid)
    (tmp_path / "squeue").write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n")
    with pytest.raises(Unavailable):
        account_of(7, ALICE)
