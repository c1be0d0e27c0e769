"""The words of a scheduling note, and what a submission can detect of the controller."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.wrappers.previous_job import PreviousJob
from tiresias.wrappers.scheduling_notes import site_controller as sites
from tiresias.wrappers.scheduling_notes import wording
from tiresias.wrappers.scheduling_notes.site_controller import SiteController

LED = SiteController("exact", frozenset({"gpu", "a100"}), frozenset({"ada"}), frozenset({"vip"}), "gpu", True)
ASKS = {"gpus": "2"}


@pytest.mark.parametrize(
    ("asked", "site", "expected"),
    [
        (ASKS, LED, "Tiresias schedules it in partition gpu"),
        (ASKS | {"partition": "a100,gpu"}, LED, "Tiresias schedules it in partition a100,gpu"),
        (ASKS | {"partition": "cpu"}, LED, "Slurm alone schedules it: partition cpu is not managed"),
        (ASKS | {"partition": "gpu,cpu"}, LED, "Slurm alone schedules it: partition gpu,cpu is not managed"),
        (ASKS | {"account": "vip"}, LED, "Slurm alone schedules it: account vip is exempt"),
        (ASKS | {"reservation": "r"}, LED, "Slurm alone schedules it: it has a reservation"),
        ({}, LED, "Slurm alone schedules it: it asks for no GPU"),
        ({"gres": "lustre:1,shard:2"}, LED, "Slurm alone schedules it: it asks for a part of a GPU (gres/shard)"),
        ({"tres-per-task": "gres/mps=50"}, LED, "Slurm alone schedules it: it asks for a part of a GPU (gres/mps)"),
        ({"gres": "gpu:1g.10gb:1"}, LED, "Tiresias schedules it in partition gpu"),
        (ASKS, LED._replace(leads=False), "Slurm alone schedules it for now: the controller of Tiresias is silent"),
        (ASKS, LED._replace(mode="shadow"), "Slurm alone schedules it: Tiresias only watches (mode shadow)"),
        (
            ASKS,
            LED._replace(mode="assist"),
            "Slurm schedules it; Tiresias preempts jobs for those that Slurm ranks first (mode assist)",
        ),
        (ASKS, LED._replace(leads=None, default=""), "Tiresias schedules it if its partition is a100 or gpu"),
        (
            ASKS | {"partition": "gpu"},
            LED._replace(leads=None),
            "Tiresias schedules it in partition gpu, by its configuration",
        ),
        (ASKS, None, "this host does not show whether Tiresias schedules it"),
    ],
)
def test_which_scheduler(asked: dict[str, str], site: SiteController | None, expected: str) -> None:
    found = wording.scheduling(asked, "alice", site)
    assert (found.managed, found.words) == (not expected.startswith("Slurm alone"), expected)
    assert found.orders == (found.managed and not expected.startswith("Slurm schedules"))


def test_exempt_users() -> None:
    assert wording.scheduling(ASKS, "ada", LED).words == "Slurm alone schedules it: user ada is exempt"


COULD, NOT = PreviousJob("12", True, 5150), PreviousJob("12", False, -1)


@pytest.mark.parametrize(
    ("asked", "managed", "seen_in", "earlier", "expected"),
    [
        ({"requeue": "no"}, True, "x.py", COULD, "never preempted, as --no-requeue keeps it from coming back"),
        ({}, True, "", COULD, "may be preempted: job 12 of this script could save, and saved step 5150"),
        ({}, True, "x.py", COULD._replace(step=-1), "may be preempted: job 12 of this script could save"),
        ({}, True, "x.py", NOT, "may be preempted: x.py names tiresias.checkpoint"),
        ({}, False, "x.py", None, "saves before its time limit: x.py names tiresias.checkpoint"),
        (
            {},
            True,
            "",
            NOT,
            "not preempted unless its program registers for checkpoints: "
            "job 12 of this script could not save (tiresias rehearse checks it)",
        ),
        ({}, False, "", None, "no checkpointing seen in the script"),
    ],
)
def test_whether_it_may_be_preempted(
    asked: dict[str, str], managed: bool, seen_in: str, earlier: PreviousJob | None, expected: str
) -> None:
    assert wording.saving(asked, managed, seen_in, earlier) == expected


@pytest.mark.parametrize(
    ("asked", "seen_in", "earlier", "expected"),
    [
        (
            {"time": "60"},
            "x.py",
            None,
            "--time=60 limits each run and not the job, which is requeued at the limit and goes on",
        ),
        ({"time": "1-0"}, "", COULD, "--time=1-0 limits each run and not the job"),
        ({"time": "60", "requeue": "no"}, "x.py", None, "it saves before its time limit (60) and ends there"),
        ({"time": "60"}, "", NOT, ""),
        ({}, "x.py", COULD, ""),
    ],
)
def test_what_a_time_limit_means(
    asked: dict[str, str], seen_in: str, earlier: PreviousJob | None, expected: str
) -> None:
    found = wording.renewal(asked, seen_in, earlier)
    assert found.startswith(expected)
    assert bool(found) == bool(expected)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"nice": "100"}, "--nice has no effect on the order of jobs that Tiresias schedules"),
        ({"nice": ""}, "--nice has no effect on the order of jobs that Tiresias schedules"),
        (
            {"priority": "7", "nice": "-5", "begin": "now+2hours"},
            "--nice and --priority have no effect on the order of jobs that Tiresias schedules; "
            "not started before --begin=now+2hours",
        ),
        ({"priority": "0", "nice": "0", "begin": "now"}, ""),
        ({}, ""),
    ],
)
def test_what_orders_and_delays(asked: dict[str, str], expected: str) -> None:
    assert wording.order(asked, True) == expected
    assert wording.order(asked, False) == ""


# the site


def test_a_lease_shows_most(tmp_path: Path) -> None:
    (tmp_path / "lease").write_text("1000\ngpu,a100\ngpu\n37\nada\nvip,deadline\n")
    paths = {"paths": {"run": str(tmp_path)}, "mode": "shadow", "partitions": ["other"]}
    found = sites.of_host(paths, 999.0)
    assert found == LED._replace(accounts=frozenset({"vip", "deadline"}))
    assert sites.of_host(paths, 1001.0) == found._replace(leads=False)


@pytest.mark.parametrize("text", ["", "soon\ngpu\n", "1\n2\n3\n", "\x00"])
def test_without_a_lease_the_configuration_counts(tmp_path: Path, text: str) -> None:
    (tmp_path / "lease").write_text(text)
    paths = {"run": str(tmp_path)}
    document = {"paths": paths, "mode": "exact", "partitions": ["gpu"], "exempt": {"users": ["ada"]}}
    assert sites.of_host(document, 0.0) == SiteController("exact", frozenset({"gpu"}), frozenset({"ada"}))
    assert sites.of_host({"paths": paths}, 0.0) == SiteController("shadow", frozenset({"gpu"}))


def test_what_is_mistyped_counts_as_not_there(tmp_path: Path) -> None:
    document = {"paths": {"run": str(tmp_path)}, "partitions": "gpu", "exempt": 5}
    assert sites.of_host(document, 0.0) == SiteController("shadow", frozenset())
    assert sites.of_host({"paths": 3}, 0.0) is not None


def test_nothing_is_known_where_nothing_is_installed(tmp_path: Path) -> None:
    assert sites.of_host(None, 0.0) is None or Path("/run/tiresias/lease").exists()
