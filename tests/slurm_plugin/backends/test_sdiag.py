"""The figures of sdiag on real Slurm of three generations."""

from __future__ import annotations

from typing import Any

import pytest

from tiresias.slurm_plugin.backends import sdiag

pytestmark = pytest.mark.sandbox
Site = Any  # conftest.py
TEXT = """\
Server thread count:  3
Agent queue size:     12
DBD Agent queue size: 4

Remote Procedure Call statistics by message type
\tREQUEST_JOB_INFO                        ( 2003) count:7      ave_time:100    total_time:700
Remote Procedure Call statistics by user
\troot            (       0) count:8      ave_time:10     total_time:80
\ttiresias        (    2000) count:2      ave_time:1500000 total_time:3000000
Pending RPC statistics
\tREQUEST_KILL_JOB                        ( 5032) count:9
"""


def test_each_figure_is_read() -> None:
    load = sdiag.load(TEXT, 2000)
    assert (load.threads, load.queue, load.database_queue, load.calls, load.seconds) == (3, 12, 4, 2, 3.0)
    assert sdiag.by_type(TEXT) == {"REQUEST_JOB_INFO": 7}


@pytest.mark.parametrize("text", ["", "nothing", TEXT.replace("count:", "")])
def test_what_is_missing_reads_as_nothing(text: str) -> None:
    assert sdiag.load(text, 2000).calls == 0


def test_slurmctld_counts_the_calls(site: Site) -> None:
    uid = site.cluster.rootfs.uid("slurm")
    before = site.backend.load(uid)
    site.backend.snapshot()
    after = site.backend.load(uid)
    assert after.calls > before.calls
    assert after.seconds > before.seconds
    assert after.threads > 0
