"""The simulation of a replay, worked out by hand: what is charged, and which jobs report."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tiresias.sandbox.replay import setup, simulated
from tiresias.sandbox.replay.setup import Options
from tiresias.sandbox.replay.simulated import Charges
from tiresias.simulator.reporting import Reporting
from tiresias.simulator.trace import Trace, TraceJob

OPTIONS = Options(time_scale=20.0, nodes=1, gpus_per_node=4, placement_effect=False)
LONG, SHORT = TraceJob("a", 0.0, 4, 5000.0), TraceJob("b", 1000.0, 4, 100.0)
NOTHING = Charges(0.0, 0.0, 0.0)


def test_each_first_start_is_charged() -> None:
    plain = simulated.mean_jct("slurm-fifo", [LONG, SHORT], OPTIONS, NOTHING)
    charged = simulated.mean_jct("slurm-fifo", [LONG, SHORT], OPTIONS, Charges(10.0, 0.0, 0.0))
    assert (plain, charged) == (4550.0, 4565.0), "the second job waits for the first one's start too"


def test_a_preemption_is_charged_until_its_gpus_are_free_and_at_the_next_start() -> None:
    plain = simulated.mean_jct("las", [LONG, SHORT], OPTIONS, NOTHING)
    charged = simulated.mean_jct("las", [LONG, SHORT], OPTIONS, Charges(0.0, 8.0, 16.0))
    assert plain == (5100.0 + 100.0) / 2
    assert charged == (5124.0 + 108.0) / 2


def test_a_job_that_has_ended_holds_its_gpus_until_the_next_decision_and_is_not_longer_for_it() -> None:
    charges = Charges(10.0, 0.0, 0.0, 4.0)
    assert simulated.mean_jct("slurm-fifo", [LONG, SHORT], OPTIONS, charges) == 4565.0 + 4.0 / 2
    both = simulated.mean_jct("slurm-backfill", [LONG, SHORT], OPTIONS, charges)
    assert both == pytest.approx(4565.0 + 4.0 / 2)


@pytest.mark.parametrize("policy", ["slurm-fifo", "slurm-backfill", "las"])
def test_a_submission_takes_effect_with_the_decision_on_it(policy: str) -> None:
    idle = [replace(LONG, submit_time=1.0), replace(SHORT, submit_time=9000.0)]
    plain = simulated.mean_jct(policy, idle, OPTIONS, NOTHING)
    assert simulated.mean_jct(policy, idle, OPTIONS, Charges(0.0, 0.0, 0.0, 0.0, 5.0)) == pytest.approx(
        (plain or 0) + 5.0
    )


def test_backfill_has_the_time_limits_of_the_replay() -> None:
    narrow = replace(SHORT, num_gpus=1, submit_time=2.0)
    head = TraceJob("c", 1.0, 4, 100.0)
    first = replace(LONG, num_gpus=3)
    found = simulated.mean_jct("slurm-backfill", [first, head, narrow], OPTIONS, NOTHING)
    assert found == (5000.0 + 5099.0 + 100.0) / 3
    limit = setup.time_limit(narrow, OPTIONS) * 60 * OPTIONS.time_scale
    assert limit == 1200.0, "a whole minute of this machine"


def test_slurms_own_choice_of_nodes_is_not_simulated() -> None:
    effect = replace(OPTIONS, placement_effect=True)
    assert simulated.mean_jct("slurm-fifo", [LONG], effect, NOTHING) is None
    assert simulated.compared("slurm-backfill", [LONG], effect, {"latency": {}, "mean_jct": 1.0}) == {}
    assert simulated.mean_jct("las", [LONG], effect, NOTHING) == 5000.0


def test_the_measured_medians_are_charged_in_seconds_of_the_trace() -> None:
    first = {"count": 2, "median": 0.5, "mean": 1.0}
    latency: dict[str, dict[str, float]] = {"first_line": first, "preemption": {"count": 0}}
    assert Charges.of(latency, 20.0) == (10.0, 0.0, 10.0, 0.0, 0.0), "without a restart a first start stands for it"
    found = simulated.compared("las", [LONG], OPTIONS, {"latency": latency, "mean_jct": 5100.0})
    assert found["simulated_mean_jct"] == 5010.0
    assert found["simulated_to_measured"] == pytest.approx(5010.0 / 5100.0)
    assert found["means_to_measured"] == pytest.approx(5020.0 / 5100.0)
    assert found["charged"] == {"start": 10.0, "pause": 0.0, "resume": 10.0, "release": 0.0, "arrival": 0.0}


def test_reports_change_what_is_simulated() -> None:
    """A long job that is nearly done is preempted for a longer one as long as neither has reported."""
    jobs = [LONG, TraceJob("b", 4900.0, 4, 3000.0)]
    by_age, reported = (simulated.mean_jct(name, jobs, OPTIONS, NOTHING) for name in ("adaptive", "adaptive+reports"))
    assert by_age == (8000.0 + 3000.0) / 2
    assert reported == (5060.0 + 3100.0) / 2, "the other one runs for min_run, and then its claim is longer"


def test_the_jobs_that_report_are_those_of_the_simulator() -> None:
    jobs = [TraceJob(str(row), float(row), 1, 100.0) for row in range(200)]
    options = replace(OPTIONS, reporting=Reporting(0.5, seed=7))
    total = options.reporting.claims(Trace.of(jobs)).total
    chosen = setup.reporters(jobs, "adaptive+reports", options)
    assert chosen == {job.job_id for job, claimed in zip(jobs, total, strict=True) if not math.isnan(claimed)}
    assert 70 < len(chosen) < 130
    assert not setup.reporters(jobs, "adaptive", options)
    assert not setup.reporters(jobs, "slurm-fifo", options)


def test_a_job_that_reports_does_so_once_in_a_second_of_the_trace() -> None:
    command = setup.submission(LONG, 0, "adaptive+reports", OPTIONS, reports=True)[2]
    assert float(command[command.index("--report-every") + 1]) == 0.05
    assert "--report-every" not in setup.submission(LONG, 0, "adaptive+reports", OPTIONS)[2]
