"""What LightningCheckpoint does beside saving: the programs are in test_examples.py."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.lazily import imported
from tiresias.checkpoint import Checkpointer

pytorch = imported("lightning.pytorch")
adapter = imported("tiresias.checkpoint.adapters.lightning", "lightning")

SLURM = {
    "SLURM_NTASKS": "1", "SLURM_JOB_NAME": "train", "SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0", "SLURM_NODELIST": "gpu01", "SLURM_NTASKS_PER_NODE": "1", "SLURM_NNODES": "1",
}  # fmt: skip


def environment(saver: Any) -> Any:
    trainer = pytorch.Trainer(accelerator="cpu", devices=1, logger=False, plugins=saver.plugins(), callbacks=[saver])
    return trainer._accelerator_connector.cluster_environment


def test_lightnings_own_requeueing_is_off_in_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    found = environment(adapter.LightningCheckpoint(Checkpointer.from_env(tmp_path)))
    assert type(found).__name__ == "SLURMEnvironment"
    assert found.auto_requeue is False


def test_outside_of_slurm_the_environment_is_lightnings_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_NTASKS", raising=False)
    assert (
        type(environment(adapter.LightningCheckpoint(Checkpointer.from_env(tmp_path)))).__name__
        == "LightningEnvironment"
    )


@pytest.mark.parametrize(
    ("validate_every", "together", "stops"),
    [
        (8, 1, [1, 2, 3, 4, 5, 6, 7]),  # not at the epoch's end
        (4, 1, [1, 2, 3, 5, 6, 7]),
        (8, 2, [2, 4, 6]),
        (4, 2, [2, 6]),
        (1, 1, [1, 2, 3, 4, 5, 6, 7, 8]),  # there is no better moment
        (2, 2, [2, 4, 6, 8]),
    ],
)
def test_where_an_epoch_of_eight_batches_may_be_left(validate_every: int, together: int, stops: list[int]) -> None:
    def trainer(batches: int) -> Any:
        return SimpleNamespace(
            val_check_batch=validate_every,
            accumulate_grad_batches=together,
            is_last_batch=batches == 8,
            check_val_every_n_epoch=1,
        )

    assert [batches for batches in range(1, 9) if adapter._may_stop(trainer(batches), batches)] == stops
