"""Accounts that are added to a private cluster which runs."""

from __future__ import annotations

import pytest

from tests.conftest import ClusterOf
from tiresias.errors import TiresiasError
from tiresias.sandbox import accounts


@pytest.mark.sandbox
def test_jobs_of_a_new_account_are_accepted_at_once(cluster_of: ClusterOf) -> None:
    cluster = cluster_of(accounting=True)
    accounts.add(cluster, {"vision": ["GrpTRES=gres/gpu=2"], "speech": ()}, ("alice", "bob"))
    submit = ["sbatch", "--parsable", "--account=vision", "--gpus=3", "--chdir=/tmp", "--wrap", "sleep 60"]
    job = cluster.run(submit, user="bob").stdout.strip()
    for account in ("vision", "speech"):
        assert cluster.run([*submit[:2], f"--account={account}", *submit[3:]], user="alice").stdout
    found = cluster.run(["scontrol", "show", "job", "-o", job]).stdout
    assert "Account=vision" in found
    with pytest.raises(TiresiasError, match="sacctmgr"):
        accounts.add(cluster, {"other": ["GrpTRES=nothing"]}, ("alice",))
