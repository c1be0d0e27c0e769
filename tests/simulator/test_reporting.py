"""Progress reports in the simulator: which jobs report, what that is worth to adaptive, and what lies gain."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tiresias.errors import UsageError
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.claims import FIRST_CLAIM_S
from tiresias.scheduler.model import Floats
from tiresias.scheduler.rank.policies import CLAIRVOYANT, POLICIES
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.reporting import Reporting
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Cost, Rules
from tiresias.simulator.trace import Trace, TraceJob, read_trace

CONFIG = replace(PolicyConfig.paper(), preemption_cost=62.0)
HEADER = "job_id,submit_time,num_gpus,duration,user"


@pytest.fixture(scope="module")
def trace() -> Trace:
    """120 jobs of ten users, long and short ones mixed, on eight GPUs at a load of about 1."""
    random = np.random.default_rng(7)
    gpus = random.choice([1, 2, 4], 120)
    duration = np.exp(random.normal(6.0, 1.6, 120))
    submit = np.cumsum(random.exponential(float((gpus * duration).sum()) / 8 / 120, 120))
    rows = zip(submit.tolist(), gpus.tolist(), duration.tolist(), strict=True)
    return Trace.of(TraceJob(str(at), *row, user=f"u{at % 10}") for at, row in enumerate(rows))


def jct(trace: Trace, reporting: Reporting | None, policy: str = "adaptive", by_node: bool = False) -> Floats:
    rules = Rules({**POLICIES, **CLAIRVOYANT}[policy], CONFIG, Cost(resume=62.0), by_node=by_node, reporting=reporting)
    return simulate(trace, ClusterSize(2, 4), rules).jct


def test_where_all_jobs_report_the_mean_is_near_the_oracles(trace: Trace) -> None:
    by_age, reported, oracle = (
        jct(trace, None).mean(),
        jct(trace, Reporting(1.0)).mean(),
        jct(trace, None, "srsf").mean(),
    )
    assert reported < by_age
    assert reported < 1.1 * oracle


def test_no_reports_change_nothing(trace: Trace) -> None:
    assert (jct(trace, None) == jct(trace, Reporting(0.0))).all()
    assert (jct(trace, None, "las") == jct(trace, Reporting(1.0), "las")).all(), "las uses no reports"


def test_a_job_that_reports_at_a_share_reports_at_every_larger_one(trace: Trace) -> None:
    some, more = (np.array(Reporting(share).claims(trace).total) for share in (0.3, 0.6))
    assert not np.isnan(more[~np.isnan(some)]).any()
    assert 0.2 < np.mean(~np.isnan(some)) < 0.4
    assert np.array_equal(np.array(Reporting(0.3).claims(trace).total), some, equal_nan=True)


def test_errors_are_within_the_factor(trace: Trace) -> None:
    factor = np.array(Reporting(1.0, error=2.0).claims(trace).total) / trace.duration
    assert factor.min() >= 0.5
    assert factor.max() <= 2.0
    assert factor.std() > 0.2


def test_an_owner_who_lies_gains_at_most_a_tenth(trace: Trace) -> None:
    lies = Reporting(1.0, liars=0.1)
    liars = np.array(lies.claims(trace).part) < 1
    assert liars.sum() == 12
    assert len({user for user, lying in zip(trace.user, liars, strict=True) if lying}) == 1
    honest, lied = jct(trace, Reporting(1.0)), jct(trace, lies)
    assert lied[liars].mean() >= 0.9 * honest[liars].mean()


def test_the_claims_of_a_snapshot_and_of_a_job_agree(trace: Trace) -> None:
    """Node by node each decision is made from columns, in a pool from one job at a time."""
    few = trace.first(60)
    assert jct(few, Reporting(1.0)).mean() == pytest.approx(jct(few, Reporting(1.0), by_node=True).mean(), rel=0.02)


def test_the_steps_of_a_trace_are_claims(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(f"{HEADER},total_steps,steps\na,0,1,100,u,500,\nb,1,1,100,u,,\nc,2,1,100,u,500,1000\n")
    total = np.array(Reporting().claims(read_trace(file)).total)
    assert total.tolist() == [100.0, pytest.approx(np.nan, nan_ok=True), 50.0]
    file.write_text(f"{HEADER},total_steps\na,0,1,100,u,-5\n")
    with pytest.raises(UsageError, match="total_steps"):
        read_trace(file)


def test_nothing_is_claimed_before_a_job_has_worked(trace: Trace) -> None:
    short = Trace.of([TraceJob("a", 0.0, 4, FIRST_CLAIM_S / 2), TraceJob("b", 0.0, 8, FIRST_CLAIM_S / 2)])
    assert (jct(short, None) == jct(short, Reporting(1.0))).all()
