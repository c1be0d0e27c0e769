from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tiresias.scheduler.estimates.size_estimate import SizeEstimate
from tiresias.scheduler.model import Resize
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.observation.job_estimates import JobEstimates
from tiresias.slurm_plugin.observation.measured_progress import MeasuredProgress
from tiresias.slurm_plugin.observation.resize_reasons import ResizeReasons
from tiresias.slurm_plugin.state.ledger import Ledger


@pytest.fixture
def estimates(ledger: Ledger, running: Callable[..., SlurmJob]) -> JobEstimates:
    ledger.apply(SlurmSnapshot(1001, (running(1000),), ()))
    return JobEstimates(ledger, MeasuredProgress(ledger))


def test_the_reason_has_both_sizes_and_the_predicted_gain(ledger: Ledger, estimates: JobEstimates) -> None:
    reasons = ResizeReasons(ledger, estimates)
    assert reasons.why(Resize("1", 8)) == "from 4 to 8 GPUs on idle GPUs"
    seconds = np.array([[np.nan, np.nan, 9000.0, np.nan, 5000.0, np.nan, np.nan, np.nan, 2820.0]])
    estimates.sizes["1"] = SizeEstimate(seconds, False)
    assert reasons.why(Resize("1", 8)) == "from 4 to 8 GPUs on idle GPUs; predicted: 47 min left instead of 83 min"
    assert reasons.why(Resize("1", 2)).startswith("from 4 to 2 GPUs as other jobs wait")
    assert reasons.why(Resize("1", 2, beneficiary="7")).startswith("from 4 to 2 GPUs for job 7; predicted: ")
    assert "predicted" not in reasons.why(Resize("1", 3))
    assert reasons.why(Resize("1", 4)) == ""
    assert reasons.why(Resize("1", 2, is_sample=True)).startswith("from 4 to 2 GPUs to time its steps there")


def test_the_reason_of_another_number_of_servers(ledger: Ledger, estimates: JobEstimates) -> None:
    reasons = ResizeReasons(ledger, estimates)
    [run] = ledger.runs_of(ledger.jobs["1"])
    run.servers = 1
    seconds = np.array([[np.nan, 9000.0, 8000.0, 7000.0, 5000.0]])
    estimates.sizes["1"] = SizeEstimate(seconds, False, np.array([0, 1, 1, 2, 3]))
    assert reasons.why(Resize("1", 4)) == "from 1 to 3 parameter servers"
    estimates.present["1"] = 6000.0
    assert reasons.why(Resize("1", 4)) == "from 1 to 3 parameter servers; predicted: 83 min left instead of 100 min"
