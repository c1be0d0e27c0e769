"""What each user would have received: the results of `tiresias whatif`, and what it shows of them."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.elastic_job import ElasticJob
from tiresias.simulator.experiments import policy_comparison
from tiresias.simulator.experiments.experiment import Setup
from tiresias.simulator.experiments.tenant_runs import SharedCluster
from tiresias.simulator.simulated_tenants import SimulatedTenants
from tiresias.simulator.simulation_rules import Cost
from tiresias.simulator.trace import Trace, TraceJob
from tiresias.simulator.views import simulate as simulate_view
from tiresias.simulator.views import whatif as view
from tiresias.simulator.views.conclusion import conclusion

HOSTILE = "</td><script>alert(1)</script>[red]\x1b[31m\n"


def setup(finish: bool = True) -> Setup:
    """A GPU; a long job, then a short one of another user's."""
    trace = Trace.of(
        [
            TraceJob("1", 0.0, 1, 9000.0, HOSTILE, "gpu"),
            TraceJob("2", 1000.0, 1, 100.0, "bob", "gpu"),
        ]
    )
    ended = np.array([9000.0, 9100.0]) if finish else np.zeros(0)
    return Setup("site", replace(trace, finish=ended), ClusterSize(1, 1), PolicyConfig.paper(), Cost(0.0, 60.0))


@pytest.fixture(scope="module")
def found() -> policy_comparison.PolicyComparison:
    return policy_comparison.compare_policies(setup(), "fifo", ("las",))


def test_the_replay_of_the_present_is_what_was_recorded(found: policy_comparison.PolicyComparison) -> None:
    assert found.jct["fifo"].tolist() == found.jct["recorded"].tolist() == [9000.0, 8100.0]
    assert found.trust == 1.0


def test_the_short_one_wins_and_the_long_one_loses(found: policy_comparison.PolicyComparison) -> None:
    """It is preempted at 3,200 GPU-seconds, waits for 100 s and works 60 s after its next start only."""
    assert found.jct["las"].tolist() == [9160.0, 2300.0]
    assert policy_comparison.losers(found, "las") == {"jobs": 0.0, "users": 0.0, "seconds": 0.0}


def test_users_that_lose_are_counted(found: policy_comparison.PolicyComparison) -> None:
    worse = replace(found, jct=dict(found.jct) | {"las": found.jct["fifo"] + np.array([1000.0, 0.0])})
    assert policy_comparison.losers(worse, "las") == {"jobs": 0.5, "users": 0.5, "seconds": 1000.0}


def test_nothing_is_recorded() -> None:
    found = policy_comparison.compare_policies(setup(finish=False), "best_effort", ("las",))
    assert found.trust is None
    assert "Accounting does not contain the end" in " ".join(view.words(found))


def test_an_elastic_job_that_grows_has_waited_for_no_time() -> None:
    """It has all four GPUs of its virtual cluster, and ends after a quarter of its known duration."""
    job = TraceJob("1", 0.0, 1, 1000.0, "ann", "vision", elastic=ElasticJob(1, 4))
    config = replace(PolicyConfig.paper(), sizing="minimum_first")
    setup = Setup("site", Trace.of([job]), ClusterSize(1, 4), config, Cost())
    tenants = SimulatedTenants("virtual_clusters", (DeclaredTenant("vision", (DeclaredCells("node", 1),)),))
    found = policy_comparison.compare_policies(setup, "las", ("las",), shared=SharedCluster("site", (tenants,)))
    assert found.jct["las, VCs"].tolist() == [250.0]
    assert found.waits()["vision"].runs["las, VCs"] == {"mean": 0.0, "p99": 0.0}


def test_groups_cover_each_job_once() -> None:
    rng = np.random.default_rng(1)
    jobs = [
        TraceJob(str(at), at, int(rng.integers(1, 200)), 5.0, f"user{rng.integers(0, 30)}", "gpu") for at in range(500)
    ]
    found = policy_comparison.groups(Trace.of(jobs))
    assert list(found) == ["GPUs", "user"], "there is one partition only"
    for kind, members in found.items():
        rows = np.concatenate(list(members.values()))
        assert sorted(rows.tolist()) == list(range(500)), kind
    assert len(found["user"]) == policy_comparison.SHOWN + 1
    assert list(found["user"])[-1] == "20 others"


def test_json_has_it_all(found: policy_comparison.PolicyComparison) -> None:
    document = json.loads(json.dumps(view.as_json(found)))
    assert document["replay_by_recorded"] == 1.0
    assert document["recorded"]["mean_jct"] == document["policies"]["fifo"]["mean_jct"] == 8550.0
    assert document["groups"]["GPUs"]["1"]["las"]["mean_jct"] == 5730.0
    assert document["groups"]["user"]["bob"]["jobs"] == 1


def test_a_name_is_text_whatever_is_in_it(found: policy_comparison.PolicyComparison) -> None:
    page = "".join(view.as_html(found))
    assert "<script" not in page
    assert html.escape("</td><script>alert(1)</script>[red]?[31m")[:20] in page
    assert not re.search(r"https?://(?!www\.w3\.org)", page), "one file that needs no other"
    printed = StringIO()
    terminal = Console(file=printed, width=200, force_terminal=False)
    for table in view.tables(found):
        terminal.print(table)
    shown = printed.getvalue()
    assert "[red]?[31m" in shown
    assert "\x1b" not in shown


def page_of(found: policy_comparison.PolicyComparison) -> list[str]:
    """What a reader sees, line by line."""
    page = "".join(view.as_html(found))
    body = re.sub(r"<style>.*?</style>|<title>.*?</title>", "", page, flags=re.DOTALL)
    return [html.unescape(one).strip() for one in re.split(r"<[^>]*>", body) if one.strip()]


def with_las(found: policy_comparison.PolicyComparison, factor: float) -> policy_comparison.PolicyComparison:
    return replace(found, jct=dict(found.jct) | {"las": found.jct["fifo"] * factor})


@pytest.mark.parametrize(
    ("factor", "is_better", "text"),
    [
        (
            0.5,
            True,
            "On these jobs las is better than fifo: mean job completion time 2.00 times shorter (4,275 s instead of 8,550 s).",
        ),
        (1.0, None, "On these jobs las and fifo are even: mean job completion time 8,550 s instead of 8,550 s."),
        (
            1.15,
            False,
            "On these jobs las is worse than fifo: mean job completion time 1.15 times longer with las (9,832 s "
            "instead of 8,550 s). "
            "`tiresias tune` looks for settings that are better. 100.0% of the jobs would end more than 10% later.",
        ),
    ],
)
def test_the_verdict_is_the_first_line(
    found: policy_comparison.PolicyComparison, factor: float, is_better: bool | None, text: str
) -> None:
    judged = conclusion(with_las(found, factor))
    assert judged == (text, is_better)
    assert page_of(with_las(found, factor))[0] == text


def test_the_best_policy_is_judged(found: policy_comparison.PolicyComparison) -> None:
    both = replace(
        found,
        runs=dict(found.runs) | {"gittins": found.runs["las"]},
        jct=dict(found.jct) | {"gittins": found.jct["fifo"] * 1.5},
    )
    assert "las is better than fifo" in conclusion(both).text
    worse = replace(both, jct=dict(both.jct) | {"las": both.jct["fifo"] * 1.2})
    assert (
        "none of the policies replayed is better than fifo: mean job completion time 1.20 times longer with las"
        in conclusion(worse).text
    )


def test_a_replay_unlike_the_record_is_not_to_be_trusted(found: policy_comparison.PolicyComparison) -> None:
    assert "trust" not in conclusion(found).text
    off = replace(found, jct=dict(found.jct) | {"recorded": found.jct["fifo"] / 2})
    assert "gives 2.00 times the recorded mean JCT: trust these numbers little" in conclusion(off).text


def test_each_heading_is_explained(found: policy_comparison.PolicyComparison) -> None:
    lines = page_of(found)
    explained = " ".join(lines[lines.index("What the words mean") :])
    for word in (*simulate_view.JCT.values(), *(heading for heading, _ in simulate_view.REST.values()), *found.jct):
        assert re.search(rf"\b{word}\b", explained), word


def test_a_report_without_matplotlib_contains_the_reason(
    found: policy_comparison.PolicyComparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "find_spec", lambda name: None)
    lines = page_of(found)
    assert lines[lines.index("Plots") + 1].startswith("There are no plots in this report: matplotlib is not installed")
    assert "<img" not in "".join(view.as_html(found))
