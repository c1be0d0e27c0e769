"""What a running controller takes over from a changed configuration, and what it refuses as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tiresias.errors import TiresiasError, UsageError
from tiresias.scheduler.plugin import PluginError
from tiresias.scheduler.registry import installed
from tiresias.slurm_plugin.cluster.site import Site
from tiresias.slurm_plugin.daemon import configured
from tiresias.slurm_plugin.daemon.configured import Configured

SITE = Site("centre", "gpu", frozenset({"gpu", "debug"}), ())


class Slurm:
    """slurm.conf as scontrol shows it."""

    site = SITE

    def read(self) -> Site:
        return self.site


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    slurm = Slurm()
    monkeypatch.setattr(configured, "read_site", slurm.read)
    return slurm  # type: ignore[return-value]


@pytest.fixture
def file(tmp_path: Path, slurm: Slurm) -> Path:
    return tmp_path / "tiresias.toml"


def read(file: Path, text: str) -> Configured:
    file.write_text(text)
    return Configured.read(file, {})


def test_nothing_changed(file: Path) -> None:
    assert read(file, "period = 7.0").again()[1] == []


@pytest.fixture
def bad_sizing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a sizing of an installed package that cannot be imported."""
    info = tmp_path / "packages" / "acme_broken-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tiresias.sizing]\nbroken = acme_broken:found\n")
    (info.parent / "acme_broken.py").write_text("raise ValueError('no licence')\n")
    monkeypatch.syspath_prepend(str(info.parent))
    installed.cache_clear()
    yield "broken"
    installed.cache_clear()


def test_a_bad_plug_in_leaves_the_old_configuration_in_force(file: Path, bad_sizing: str) -> None:
    old = read(file, "period = 7.0")
    file.write_text(f'period = 8.0\n[policy]\nsizing = "{bad_sizing}"')
    with pytest.raises(PluginError, match=r"^sizing: 'broken' of package acme-broken: its import failed: ValueError"):
        old.again()
    assert (old.config.period, old.config.policy.sizing) == (7.0, "fixed")


def test_holds_are_lifted_with_a_bad_plug_in(file: Path, bad_sizing: str, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text(f'period = 8.0\n[policy]\nsizing = "{bad_sizing}"')
    config = Configured.read(file, {}, acts=False).config
    assert (config.period, config.policy.sizing) == (8.0, "fixed")
    assert "the holds are lifted with the default policy" in caplog.text
    with pytest.raises(PluginError):
        Configured.read(file, {})


def test_changes_are_named(file: Path) -> None:
    old = read(file, "[policy]\nthresholds = [10.0]")
    file.write_text('partitions = ["gpu", "debug"]\n[policy]\nthresholds = [10.0, 20.0]\n[exempt]\nusers = ["ada"]')
    new, changes = old.again()
    assert changes == [
        "partitions: gpu -> gpu, debug",
        "policy.thresholds: 10.0 -> 10.0, 20.0",
        "exempt.users: none -> ada",
    ]
    assert new.config.partitions == ("gpu", "debug")
    assert new.again()[1] == []


def test_a_flag_wins_as_at_the_start(file: Path) -> None:
    file.write_text("")
    old = Configured.read(file, {"mode": "shadow"})
    file.write_text('mode = "exact"')
    assert old.again()[1] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('backend = "commands"', "backend: auto -> commands: this cannot change while the controller runs"),
        ('[paths]\nstate = "/elsewhere"', "paths.state: /var/lib/tiresias -> /elsewhere: this cannot change"),
        ('period = 9.0\n[paths]\ncontrol = "/elsewhere"', "paths.control: "),
        ("period = 0.0", "period = 0.0: allowed: "),
        ("perod = 9.0", "unknown key perod: did you mean period?"),
    ],
)
def test_refused_in_one_line(file: Path, text: str, words: str) -> None:
    old = read(file, "")
    file.write_text(text)
    with pytest.raises(UsageError) as error:
        old.again()
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_what_slurm_has_not(file: Path, slurm: Slurm) -> None:
    old = read(file, "")
    file.write_text('partitions = ["gpu", "gone"]')
    with pytest.raises(TiresiasError, match=r"partition gone is not in slurm\.conf"):
        old.again()
    file.write_text("")
    slurm.site = replace(SITE, cluster="other")
    with pytest.raises(UsageError, match="ClusterName is other, was centre"):
        old.again()


def test_partitions_that_share_nodes_have_one_order(file: Path, slurm: Slurm) -> None:
    slurm.site = replace(SITE, nodes={"gpu": "gpu[01-03]", "debug": "gpu04"})
    both = 'partitions = ["gpu", "debug"]\n[policy]\nmin_run = 5\n'
    old = read(file, both)
    file.write_text(both + "[policy.partitions.debug]\nmin_run = 0")
    new, changes = old.again()
    assert changes == ["policy.partitions.debug.min_run: 5.0 -> 0.0"]
    slurm.site = replace(SITE, nodes={"gpu": "gpu[01-04]", "debug": "gpu04"})
    with pytest.raises(UsageError) as error:
        new.again()
    assert str(error.value) == (
        "partitions gpu and debug share gpu04 and have two policies: "
        "give both the same [policy.partitions.NAME] table, or none"
    )
    file.write_text(both)
    assert new.again()[1] == ["policy.partitions.debug.min_run: 0.0 -> 5.0"]
