"""The presets: the simulator and the controller read the same files to the same policies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.errors import UsageError
from tiresias.simulator.presets import folder, names, preset
from tiresias.slurm_plugin.config import load_config

VIRTUAL_CLUSTER = '\n[[virtual_cluster]]\nname = "a"\ncells = [{ level = "node", count = 1 }]\naccounts = ["a"]\n'


def test_the_presets_are_those_of_the_papers_and_one_of_the_product() -> None:
    assert names() == ("drf", "elastic", "hived", "las", "optimus", "tetris", "tiresias")


@pytest.mark.parametrize("name", names())
def test_the_controller_reads_the_same_policy(name: str, tmp_path: Path) -> None:
    text = (folder() / f"{name}.toml").read_text()
    file = tmp_path / "tiresias.toml"
    file.write_text(text + VIRTUAL_CLUSTER if name == "hived" else text)
    config = load_config(file, {}, {})
    assert config.policy == preset(name).config
    placement = preset(name).placement
    assert (placement is None) == ("[placement]" not in text)


def test_a_file_is_a_preset(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[policy]\nname = "las"\nsizing = "marginal_gain"\nthresholds = [1, 2.5]\n')
    assert preset(str(file)).config.thresholds == (1, 2.5)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[rpc]\nrate = 1.0\n", "rpc: a preset has the tables policy and placement alone"),
        ("policy = 1\n", "policy is not a table"),
        ("[policy]\nsize = 1\n", "unknown key policy.size"),
        ('[policy]\nsizing = "none"\n', "policy.sizing = 'none' is not possible"),
        ("[placement]\nstyle = 1\n", "placement.style = 1 is not possible; give a str"),
        ('[placement]\nstyle = "heap"\n', "placement.style = 'heap' is not possible; there are skew"),
        ("[placement\n", "is not TOML"),
    ],
)
def test_a_mistake_in_a_file_is_one_line(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as raised:
        preset(str(file))
    assert str(raised.value).startswith(str(file))
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value).rstrip()


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such preset; there are drf, elastic, hived"):
        preset("optimum")
    with pytest.raises(UsageError, match=r"none\.toml: cannot be read"):
        preset(str(tmp_path / "none.toml"))
