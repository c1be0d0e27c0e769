"""The tables of virtual clusters in a file, and the jobs of a history that belong to each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.errors import UsageError
from tiresias.simulator.tenant_file import TenantFile, read_tenant_file
from tiresias.simulator.trace import read_trace

TABLES = """
[policy]
name = "las"

[[virtual_cluster]]
name = "vision"
cells = [{ level = "node", count = 1 }]
accounts = ["vision"]
qos = ["high"]
policy = "fifo"

[[virtual_cluster]]
name = "speech"
cells = [{ level = "node", count = 1 }]
accounts = ["speech"]

[[virtual_cluster]]
name = "debug"
cells = [{ level = "node", count = 1 }]
"""
SACCT = """JobID|Account|QOS|Partition|Submit|Start|End|ElapsedRaw|State|AllocTRES
1|vision|high|gpu|2026-01-31T12:00:00|2026-01-31T12:00:10|2026-01-31T12:01:10|60|COMPLETED|gres/gpu=2
2|vision|low|gpu|2026-01-31T12:00:00|2026-01-31T12:00:10|2026-01-31T12:01:10|60|COMPLETED|gres/gpu=2
3|speech|low|gpu|2026-01-31T12:00:00|2026-01-31T12:00:10|2026-01-31T12:01:10|60|COMPLETED|gres/gpu=2
4|text|low|debug|2026-01-31T12:00:00|2026-01-31T12:00:10|2026-01-31T12:01:10|60|COMPLETED|gres/gpu=2
5|text|low|speech|2026-01-31T12:00:00|2026-01-31T12:00:10|2026-01-31T12:01:10|60|COMPLETED|gres/gpu=2
"""


@pytest.fixture
def tenants(tmp_path: Path) -> TenantFile:
    """A controller's configuration."""
    (tmp_path / "tiresias.toml").write_text(TABLES)
    return read_tenant_file(tmp_path / "tiresias.toml")


def test_a_policy_is_of_the_table_that_names_it(tenants: TenantFile) -> None:
    assert tenants.policies == {"vision": "fifo"}
    assert tenants.shared_by("virtual_clusters").policies == {"vision": "fifo"}


def test_jobs_belong_to_the_first_table_that_matches(tenants: TenantFile, tmp_path: Path) -> None:
    """A table without lists has the jobs whose partition has its name; a job is in no table with lists by its partition's name."""
    (tmp_path / "sacct").write_text(SACCT)
    assert tenants.assigned(read_trace(tmp_path / "sacct")).vc == ("vision", "gpu", "speech", "debug", "")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('accounts = "x"', "accounts = 'x' is not possible"),
        (
            'account = ["x"]',
            "unknown key 'account'; known: name, cells, opportunistic, accounts, qos, partitions, policy",
        ),
        ('policy = "lass"', "policy = 'lass' is not possible; allowed: las, fifo"),
        ('accounts = ["speech"]', "virtual clusters speech and debug both claim account speech"),
        ('[[virtual_cluster]]\nname = "debug"\ncells = [{ level = "node", count = 1 }]', "debug: it is declared twice"),
    ],
)
def test_a_table_that_is_not_possible_is_one_line(tmp_path: Path, more: str, message: str) -> None:
    file = tmp_path / "vcs.toml"
    file.write_text(f"{TABLES}{more}\n")
    with pytest.raises(UsageError) as error:
        read_tenant_file(file)
    assert message in str(error.value)
    assert str(error.value).startswith(f"{file}: ")
    assert "\n" not in str(error.value)
