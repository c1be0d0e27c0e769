"""The generated workloads are the paper's and Philly's: counts, bins, bounds, load, and the same for the same seed."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.__main__ import main
from tiresias.errors import UsageError
from tiresias.simulator import models
from tiresias.simulator.generators import (
    GPUS,
    LONGEST,
    MODELS,
    PHILLY_GPUS,
    SHORT,
    SHORTEST,
    apportion,
    bounded_pareto,
    paper_testbed,
    philly_like,
)
from tiresias.simulator.trace import TraceJob, read_trace

TRACES = Path(os.environ.get("TIRESIAS_TRACES", Path(__file__).parents[3] / "shared" / "data"))


def generate(*args: int) -> list[TraceJob]:
    return paper_testbed(*args).jobs()


def test_testbed_is_section_5_1() -> None:
    jobs = generate()
    assert len(jobs) == 480
    assert Counter(job.num_gpus for job in jobs) == GPUS
    assert set(Counter(job.model for job in jobs).values()) == {48}
    assert Counter(job.model for job in jobs).keys() == set(MODELS)


def test_the_sandbox_trains_all_models() -> None:
    assert tuple(models.MODELS) == MODELS


def test_the_first_jobs_are_known() -> None:
    """A seed is a workload for ever: published results name seeds only."""
    assert generate()[:2] == [
        TraceJob("0", 0.0, 16, 778.0, "user0", "vc0", "vgg16", "Pass"),
        TraceJob("1", 0.0, 1, 286.0, "user1", "vc0", "resnet152", "Pass"),
    ]


def test_bins_are_those_of_table_3() -> None:
    bins = Counter(("S" if job.num_gpus <= 4 else "L") + ("S" if job.duration < SHORT else "L") for job in generate())
    assert bins == {"SS": 301, "SL": 59, "LS": 83, "LL": 37}


@given(jobs=st.integers(1, 1000), seed=st.integers(0, 2**32))
@settings(max_examples=examples(30))
def test_any_number_of_jobs(jobs: int, seed: int) -> None:
    made = generate(jobs, seed)
    assert len(made) == jobs
    assert len({job.job_id for job in made}) == jobs
    assert all(SHORTEST <= job.duration <= LONGEST for job in made)
    arrivals = [job.submit_time for job in made]
    assert arrivals == sorted(arrivals)
    assert arrivals[0] == 0
    models = Counter(job.model for job in made)
    assert max(models.values()) - min(models[name] for name in MODELS) <= 1


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(10))
def test_a_seed_is_a_workload(seed: int) -> None:
    assert generate(50, seed) == generate(50, seed)
    assert generate(50, seed) != generate(50, seed + 1)


def test_arrivals_are_30_seconds_apart_in_the_mean() -> None:
    assert generate(20_000, 3)[-1].submit_time / 19_999 == pytest.approx(30, rel=0.03)


@given(
    total=st.integers(0, 5000),
    shares=st.dictionaries(st.integers(), st.integers(0, 100), min_size=1).filter(lambda shares: any(shares.values())),
)
def test_apportion_is_within_one_of_the_exact_share(total: int, shares: dict[int, int]) -> None:
    counts = Counter(apportion(total, shares))
    assert sum(counts.values()) == total
    whole = sum(shares.values())
    assert all(abs(counts[item] - total * share / whole) < 1 for item, share in shares.items())


@given(u=st.floats(0, 1, exclude_max=True), shape=st.floats(0.1, 10))
def test_bounded_pareto_stays_in_its_bounds(u: float, shape: float) -> None:
    assert 120 <= bounded_pareto(120, 800, shape, u) <= 800 * (1 + 1e-9)


def test_bounded_pareto_has_its_median() -> None:
    """Half of a bounded Pareto of shape 1 on [L, H] lies below 2LH / (L + H)."""
    assert bounded_pareto(120, 800, 1.0, 0.5) == pytest.approx(2 * 120 * 800 / 920)


@pytest.mark.parametrize(("gpus", "load"), [(2000, 0.9), (64, 1.2), (1, 0.5)])
def test_philly_like_has_the_load(gpus: int, load: float) -> None:
    """The last job comes a little before the end of the time for which the load was laid out."""
    trace = philly_like(20_000, 3, gpus=gpus, load=load)
    assert len(trace) == 20_000
    assert trace.gpus @ trace.duration / (gpus * trace.submit[-1]) == pytest.approx(load, rel=0.03)
    assert trace.gpus.max() <= gpus


def test_philly_like_is_its_seed() -> None:
    same, other = philly_like(500, 4), philly_like(500, 5)
    assert philly_like(500, 4).jobs() == same.jobs()
    assert other.jobs() != same.jobs()
    assert same.submit[0] == 0
    assert np.all(np.diff(same.submit) >= 0)
    assert same.duration.min() >= 1


def test_philly_like_has_days() -> None:
    """The busiest hours see twice what the quietest see, over many days."""
    submit = philly_like(200_000, 1, gpus=200, load=0.5).submit
    hours = np.bincount((submit % 86400 // 3600).astype(int), minlength=24)
    assert submit[-1] > 200 * 86400
    assert hours[[6, 7, 8]].mean() > 2 * hours[[13, 14, 15]].mean()


def test_philly_like_is_like_philly() -> None:
    """GPU mix within a point, quantiles of the durations of each large class within a third, means within a tenth."""
    file = TRACES / "philly_full.csv.gz"
    if not file.exists():
        pytest.skip(f"no {file}")
    foreign, own = read_trace(file), philly_like(300_000, 1)
    for gpus in PHILLY_GPUS:
        assert (own.gpus == gpus).mean() == pytest.approx((foreign.gpus == gpus).mean(), abs=0.01)
    for gpus in (1, 2, 4, 8):
        made, found = own.duration[own.gpus == gpus], foreign.duration[foreign.gpus == gpus]
        assert np.percentile(made, [10, 25, 50, 75, 90]) == pytest.approx(
            np.percentile(found, [10, 25, 50, 75, 90]), rel=0.35
        )
        assert made.mean() == pytest.approx(found.mean(), rel=0.1)


def test_philly_like_refuses_endless_spans() -> None:
    with pytest.raises(UsageError, match="give more GPUs, or a higher load"):
        philly_like(1000, gpus=1, load=1e-9)


@pytest.mark.parametrize("name", ["trace.csv", "trace.csv.gz"])
def test_the_command_writes_a_trace(tmp_path: Path, name: str) -> None:
    for kind, trace in (("testbed", paper_testbed(20, 9)), ("philly-like", philly_like(20, 9))):
        assert main(["workload", kind, "--jobs", "20", "--seed", "9", "--out", str(tmp_path / name)]) == 0
        assert read_trace(tmp_path / name).jobs() == trace.jobs()
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_times_are_written_in_full(tmp_path: Path) -> None:
    """Not as 1.23457e+06."""
    assert main(["workload", "testbed", "--interarrival", "1000000", "--out", str(tmp_path / "t.csv")]) == 0
    trace = paper_testbed(interarrival=1e6)
    assert trace.submit[-1] > 1e8
    assert np.array_equal(read_trace(tmp_path / "t.csv").submit, trace.submit)


@pytest.mark.parametrize(
    ("words", "output"),
    [
        ("testbed --jobs 0", "--jobs is 0: it must be above 0"),
        ("testbed --jobs 99999999", "20,000,000 is the most"),
        ("testbed --interarrival -1", "--interarrival is -1.0: it must be above 0"),
        ("testbed --long-shape nan", "--long-shape is nan: it must be above 0"),
        ("testbed --seed -1", "--seed is -1: it must be 0 or more"),
        ("philly-like --load inf", "--load is inf: it must be above 0"),
        ("philly-like --gpus 0", "--gpus is 0: it must be above 0"),
    ],
)
def test_impossible_workloads_are_refused(
    tmp_path: Path, words: str, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["workload", *words.split(), "--out", str(tmp_path / "t.csv")]) == 2
    assert output in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", "testbed", "--out", str(tmp_path / "none" / "t.csv")]) == 2
    assert "there is no folder" in capsys.readouterr().err
