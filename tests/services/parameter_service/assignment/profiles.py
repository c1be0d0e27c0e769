"""Profiles of jobs for the tests of assignments."""

from __future__ import annotations

import math
import random

from hypothesis import strategies as st

from tiresias.services.parameter_service.assignment.aggregator_load import AggregatorLoad
from tiresias.services.parameter_service.assignment.assignment_rules import AssignmentRules
from tiresias.services.parameter_service.assignment.execution_cycle import TOLERANCE
from tiresias.services.parameter_service.assignment.job_work import JobWork

PSEUDOCODE = AssignmentRules(burst_factor=math.inf)  # without the limit that this project adds
ITERATIONS = ((6.0, 12.0), (10.0, 10.5, 21.0), (1.0, 2.0, 4.0), (3.0, 3.1, 6.2, 9.3), (5.0, 12.0, 6.0))


def job_work(job: str, iteration_s: float, *work_s: float, servers: int = 1) -> JobWork:
    return JobWork(job, iteration_s, servers, {f"t{at}": each for at, each in enumerate(work_s)})


def random_jobs(seed: int) -> dict[str, JobWork]:
    """Two to six jobs with related iterations, of two to seven tensors each."""
    chance = random.Random(seed)
    iterations, found = chance.choice(ITERATIONS), {}
    for at in range(chance.randint(2, 6)):
        iteration_s, servers = chance.choice(iterations), chance.randint(1, 2)
        work_s = iteration_s * servers * chance.uniform(0.15, 0.85)
        parts = [chance.random() + 0.1 for _ in range(chance.randint(2, 7))]
        tensors = [min(work_s * part / sum(parts), iteration_s) for part in parts]
        found[f"j{at}"] = job_work(f"j{at}", iteration_s, *tensors, servers=servers)
    return found


@st.composite
def job_works(draw: st.DrawFn, job: str = "j") -> JobWork:
    iteration_s = draw(st.sampled_from([each for group in ITERATIONS for each in group]) | st.floats(0.5, 30.0))
    shares = draw(st.lists(st.floats(0.0, 0.7), min_size=1, max_size=8))
    return job_work(job, iteration_s, *(share * iteration_s for share in shares), servers=draw(st.integers(1, 4)))


def check_loads(loads: list[AggregatorLoad], jobs: dict[str, JobWork], rules: AssignmentRules) -> None:
    """Check constraints IV.1 and IV.2, the loss limit and the limit of bursts."""
    held = [(job, tensor) for load in loads for job, part in load.parts.items() for tensor in part.tensors]
    assert sorted(held) == sorted((job, tensor) for job, work in jobs.items() for tensor in work.tensors)
    for load in loads:
        assert load.work_s <= load.cycle_s * (1 + TOLERANCE)
        for job, part in load.parts.items():
            assert load.loss_of_job(job) < rules.loss_limit
            assert part.work_s <= rules.burst_s(jobs[job]) * (1 + TOLERANCE)
            assert math.isclose(part.work_s, math.fsum(part.tensors.values()), abs_tol=1e-9)
