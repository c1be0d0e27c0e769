"""The tables [[virtual_cluster]]: which jobs belong to which one, and that every mistake is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.errors import UsageError
from tiresias.scheduler.tenants.declarations import DeclaredCells
from tiresias.slurm_plugin.config import Config, load, load_config

RULE = '[policy]\nname = "las"\nadmission = "virtual_clusters"\n'
CELLS = 'cells = [{ level = "node", count = 2 }]'


def table(name: str, *lines: str) -> str:
    return "\n".join(["[[virtual_cluster]]", f'name = "{name}"', CELLS, *lines, ""])


def loaded(tmp_path: Path, text: str) -> Config:
    file = tmp_path / "tiresias.toml"
    file.write_text(text)
    return load_config(file, {}, {})


def mistake(tmp_path: Path, text: str) -> str:
    with pytest.raises(UsageError) as error:
        loaded(tmp_path, text)
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{tmp_path / 'tiresias.toml'}: ")


def test_a_table_has_cells_members_and_a_policy(tmp_path: Path) -> None:
    text = RULE + table("vision", 'accounts = ["vision", "ocr"]', 'policy = "fifo"', "opportunistic = false")
    [found] = loaded(tmp_path, text).virtual_clusters
    assert (found.tenant.name, found.tenant.cells) == ("vision", (DeclaredCells("node", 2),))
    assert (found.accounts, found.qos, found.partitions) == (("vision", "ocr"), (), ())
    assert (found.policy.name, found.tenant.opportunistic) == ("fifo", False)
    assert str(found) == "vision (2 node; accounts vision ocr; fifo, not opportunistic)"


def test_other_keys_of_the_policy_hold_in_each_virtual_cluster(tmp_path: Path) -> None:
    text = RULE + "min_run = 7\n" + table("vision", 'accounts = ["vision"]', 'policy = "fifo"')
    assert loaded(tmp_path, text).virtual_clusters[0].policy.min_run == 7.0


@pytest.mark.parametrize(
    ("account", "qos", "partition", "expected"),
    [
        ("a", "high", "gpu", "fast"),  # the first table that it can belong to
        ("a", "normal", "gpu", "a"),
        ("a", "normal", "gpu,big", "a"),
        ("b", "high", "gpu", "fast"),
        ("b", "normal", "gpu", ""),
        ("c", "normal", "big", "big"),
        ("c", "normal", "gpu,big", ""),  # it may start outside of the partition
    ],
)
def test_a_job_belongs_to_the_first_table_that_has_it(
    tmp_path: Path, account: str, qos: str, partition: str, expected: str
) -> None:
    tables = table("fast", 'qos = ["high"]'), table("a", 'accounts = ["a"]'), table("big", 'partitions = ["big"]')
    config = loaded(tmp_path, 'partitions = ["gpu", "big"]\n' + RULE + "".join(tables))
    assert config.virtual_cluster_of(account, qos, partition) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (RULE, "policy.admission = 'virtual_clusters': no virtual clusters are declared"),
        (table("a", 'accounts = ["a"]'), "policy.admission = 'shared' has no virtual clusters, and they are declared"),
        (
            RULE + table("a"),
            "virtual cluster a: no job can belong to it; give accounts, qos, partitions or some of them",
        ),
        (RULE + table("a", "accounts = []"), "virtual cluster a: accounts = [] is not possible; give a list of names"),
        (
            RULE + table("a", 'accounts = "a"'),
            "virtual cluster a: accounts = 'a' is not possible; give a list of names",
        ),
        (
            RULE + table("a", "accounts = [1]"),
            "virtual cluster a: accounts = [1] is not possible; give a list of names",
        ),
        (RULE + table("a", 'qos = ["x y"]'), "virtual cluster a: qos = ['x y'] is not possible; give a list of names"),
        (RULE + table("a", 'acounts = ["a"]'), "virtual cluster a: unknown key 'acounts'; known: name, cells"),
        (
            RULE + table("a", 'accounts = ["a"]', 'policy = "srsf"'),
            "virtual cluster a: policy = 'srsf' is not possible",
        ),
        (RULE + table("a", 'accounts = ["a"]') * 2, "virtual cluster a: it is declared twice"),
        (
            RULE + table("a", 'accounts = ["x", "y"]') + table("b", 'accounts = ["y"]'),
            "virtual clusters a and b both claim account y; give it to one of them",
        ),
        (
            RULE + table("a", 'accounts = ["x"]') + table("b", 'accounts = ["x"]', 'qos = ["q"]'),
            "virtual clusters a and b both claim account x; give it to one of them",
        ),
        (RULE + "virtual_cluster = 3\n", "policy.virtual_cluster"),
        ("virtual_cluster = 3\n" + RULE, "virtual_cluster must be tables: write [[virtual_cluster]]"),
        (
            RULE + table("a", 'accounts = ["a"]') + '[policy.partitions.gpu]\nname = "fifo"\n',
            "policy.partitions.gpu: with virtual clusters a partition has no policy of its own",
        ),
        ('[policy.partitions.gpu]\nadmission = "private_clusters"\n', "policy.partitions.gpu: with virtual clusters"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in mistake(tmp_path, text)


def test_lists_of_both_that_differ_keep_two_virtual_clusters_apart(tmp_path: Path) -> None:
    one = table("a", 'accounts = ["x"]', 'qos = ["high"]')
    other = table("b", 'accounts = ["x"]', 'qos = ["low"]')
    config = loaded(tmp_path, RULE + one + other)
    assert [config.virtual_cluster_of("x", qos, "gpu") for qos in ("high", "low", "normal")] == ["a", "b", ""]


def test_the_source_of_the_tables_is_their_file(tmp_path: Path) -> None:
    file = tmp_path / "tiresias.toml"
    file.write_text(RULE + table("a", 'accounts = ["a"]'))
    assert load(file, {}, {}).sources["virtual_cluster"] == str(file)
