"""Where values come from, and that every mistake is one line with file, key and what is allowed."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.errors import UsageError
from tiresias.protocol import site_configuration
from tiresias.slurm_plugin.config import Config, load, load_config, load_option, options


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tiresias.toml"


def drop_in(file: Path, name: str, text: str) -> None:
    (file.parent / "conf.d").mkdir(exist_ok=True)
    (file.parent / "conf.d" / name).write_text(text)


def mistake(file: Path, text: str, environ: dict[str, str] | None = None) -> str:
    file.write_text(text)
    with pytest.raises(UsageError) as error:
        load_config(file, {}, environ or {})
    assert "\n" not in str(error.value)
    return str(error.value)


def test_flags_win_over_environment_over_drop_ins_over_file_over_default(file: Path) -> None:
    file.write_text('mode = "exact"\nperiod = 5\npoll = 0.5\nbackend = "commands"\n[policy]\nmin_run = 1\n')
    drop_in(file, "10-site.toml", "period = 6\npoll = 0.6\n[policy]\nmin_run = 2\n")
    drop_in(file, "20-later.toml", "[policy]\nmin_run = 3\n")
    environ = {"TIRESIAS_POLL": "0.7", "TIRESIAS_POLICY_MIN_RUN": "4"}
    loaded = load(file, {"policy.min_run": 5.0, "mode": None}, environ)
    assert (loaded.config.mode, loaded.config.backend) == ("exact", "commands")
    assert (loaded.config.period, loaded.config.poll, loaded.config.policy.min_run) == (6.0, 0.7, 5.0)
    assert loaded.config.preemption.deadline == 120.0
    assert loaded.sources["backend"] == str(file)
    assert loaded.sources["period"].endswith("conf.d/10-site.toml")
    assert loaded.sources["poll"] == "environment TIRESIAS_POLL"
    assert loaded.sources["policy.min_run"] == "the command line"
    assert loaded.sources["preemption.deadline"] == "default"


def test_without_a_file_the_defaults_rule(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(site_configuration, "FILE", tmp_path / "tiresias.toml")
    assert load_config(None, {}, {}) == Config()


def test_a_fresh_install_only_watches() -> None:
    assert Config().mode == "shadow"


def test_lists_and_infinity_from_the_environment(file: Path) -> None:
    file.write_text("")
    environ = {
        "TIRESIAS_POLICY_THRESHOLDS": "100, 2000.5",
        "TIRESIAS_PARTITIONS": "a,b",
        "TIRESIAS_POLICY_STARVE_LIMIT": "inf",
        "TIRESIAS_PATHS_RUN": "/tmp/run",
    }
    found = load_config(file, {}, environ)
    assert found.policy.thresholds == (100.0, 2000.5)
    assert found.partitions == ("a", "b")
    assert found.policy.starve_limit == math.inf
    assert found.paths.run == Path("/tmp/run")


def test_variables_that_mean_other_things_are_no_keys(file: Path) -> None:
    file.write_text("")
    others = ["CONTROL", "CHECKPOINT_DIR", "RESTART", "SIGNAL", "RUN_ID", "CONTROL_ROOT", "CHECKPOINT_ROOT"]
    assert load_config(file, {}, {f"TIRESIAS_{name}": "x" for name in others}) == Config()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('mode = "exatc"', ["mode = 'exatc'", "shadow, assist, exact"]),
        ('moed = "exact"', ["unknown key moed", "did you mean mode?"]),
        ("[policy]\nthreshold = [1]", ["unknown key policy.threshold", "did you mean policy.thresholds?"]),
        ("[polcy]\nname = 'las'", ["unknown key polcy", "did you mean policy?"]),
        ("zzz = 1", ["unknown key zzz", "allowed are mode, shadow_of, partitions"]),
        ("policy = 3", ["policy must be a table"]),
        ("period = '5'", ["period = '5'", "seconds above 0"]),
        ("[placement]\npart_types = ['s0']", ["placement.part_types = ", "none or several different ones"]),
        ("[placement]\npart_types = ['s0', 's0']", ["placement.part_types = ", "none or several different ones"]),
        (
            "[placement]\npart_types = ['s0', 's1']\nislands = []",
            ["placement.part_types: no level has its parts", "placement.islands"],
        ),
        ("period = 0", ["period = 0", "seconds above 0"]),
        ("period = nan", ["period = nan"]),
        ("period = inf", ["period = inf", "finite"]),
        ("period = true", ["period = True"]),
        (f"period = 1{'0' * 400}", ["period = 1000"]),
        ("partitions = []", ["partitions = []", "list of names"]),
        ("partitions = ['a b']", ["partitions"]),
        ("partitions = [1]", ["partitions"]),
        ("partitions = 'gpu'", ["partitions = 'gpu'", "list of names"]),
        ("[paths]\nstate = 'here'", ["paths.state = 'here'", "an absolute path"]),
        ('[paths]\nstate = "/a\\u0000b"', ["paths.state", "an absolute path"]),
        ("[policy]\nthresholds = [5, 3]", ["policy.thresholds = [5, 3]", "each above the one before"]),
        ("[policy]\npromote_knob = nan", ["policy.promote_knob = nan"]),
        ("[policy]\nmax_preemptions = 1.5", ["policy.max_preemptions = 1.5", "whole number"]),
        ("[policy]\nname = {a = 1}", ["policy.name = {'a': 1}", "las, fifo, best_effort"]),
        ("[preemption]\nsignal = 'KILL'", ["preemption.signal = 'KILL'", "USR2"]),
        ("mode = exact", ["is no TOML", "line 1"]),
        ('"a\\nb" = 1', ["unknown key 'a\\nb'"]),
        (f"{'k' * 5000} = 1", ["unknown key 'kkkk"]),
        (f"mode = '{'k' * 5000}'", ["mode = 'kkkk"]),
    ],
)
def test_a_mistake_names_file_key_and_what_is_allowed(file: Path, text: str, words: list[str]) -> None:
    message = mistake(file, text)
    assert message.startswith(str(file))
    for word in words:
        assert word in message
    assert len(message) < 700


def test_a_mistake_in_the_environment_names_the_variable(file: Path) -> None:
    assert "environment TIRESIAS_MODE: mode = 'x'" in mistake(file, "", {"TIRESIAS_MODE": "x"})
    message = mistake(file, "", {"TIRESIAS_POLICY_TRESHOLDS": "1"})
    assert "TIRESIAS_POLICY_TRESHOLDS" in message
    assert "did you mean TIRESIAS_POLICY_THRESHOLDS?" in message


def test_a_mistake_in_a_drop_in_names_the_drop_in(file: Path) -> None:
    drop_in(file, "x.toml", "period = -1")
    assert mistake(file, "").startswith(str(file.parent / "conf.d" / "x.toml"))


def test_a_missing_file_and_bytes_that_are_no_text(file: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load_config(file, {}, {})
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is no TOML"):
        load_config(file, {}, {})


def test_one_option_is_read_past_mistakes_elsewhere(file: Path) -> None:
    file.write_text('moed = 1\n[paths]\nrun = "/tmp/x"\n[policy]\nname = 5\n')
    assert load_option("paths.run", file, {}) == Path("/tmp/x")
    assert load_option("paths.run", file, {"TIRESIAS_PATHS_RUN": "/y"}) == Path("/y")


def test_the_wait_at_submit_outlives_the_lease() -> None:
    for period in (0.1, 1.0, 30.0, 300.0):
        settings = Config(period=period)
        assert settings.admission_wait > settings.lease_seconds >= 3 * period


@given(st.sampled_from(sorted(options())), st.text(max_size=40))
def test_any_text_in_the_environment_is_a_value_or_one_line(key: str, text: str) -> None:
    problem = ""
    try:
        load_config(Path("/dev/null"), {}, {options()[key].variable: text})
    except UsageError as error:
        problem = str(error)
    assert problem.isprintable()


def test_a_partition_with_a_policy_of_its_own(file: Path) -> None:
    """The keys that its table lacks are those of [policy]; a drop-in changes single ones."""
    file.write_text(
        'partitions = ["gpu", "debug"]\n[policy]\nname = "las"\nmin_run = 5\n[policy.partitions.debug]\nname = "fifo"\nquantum = 9'
    )
    drop_in(file, "10-site.toml", "[policy.partitions.debug]\nquantum = 10")
    loaded = load(file, {}, {"TIRESIAS_POLICY_COOLDOWN": "3"})
    base, own = (loaded.config.policy_of(name) for name in ("gpu", "debug"))
    assert (base.name, base.min_run, base.quantum, base.cooldown) == ("las", 5.0, 300.0, 3.0)
    assert (own.name, own.min_run, own.quantum, own.cooldown) == ("fifo", 5.0, 10.0, 3.0)
    assert loaded.config.policy_of("debug,gpu") is own
    assert loaded.value("policy.partitions.debug.quantum") == 10.0
    assert loaded.sources["policy.partitions.debug.quantum"].endswith("conf.d/10-site.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[policy.partitions.debug]\nmin_run = 1",
            "policy.partitions.debug: partition debug is not managed (partitions)",
        ),
        ("[policy.partitions.gpu]\nmin_runs = 1", "unknown key policy.partitions.gpu.min_runs"),
        ("[policy.partitions.gpu]\nmin_run = -1", "policy.partitions.gpu.min_run = -1: allowed: seconds, 0 or more"),
        ("[policy.partitions]\ngpu = 1", "policy.partitions.gpu must be a table: write [policy.partitions.gpu]"),
        ("[policy]\npartitions = 3", "unknown key policy.partitions"),
    ],
)
def test_mistakes_in_the_policy_of_a_partition(file: Path, text: str, words: str) -> None:
    assert words in mistake(file, text)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[policy]\nsizing = "minimum_first"', "policy.sizing"),
        ('[policy.partitions.gpu]\nsizing = "minimum_first"', "policy.sizing"),
        ('[placement]\nstragglers = "replace"', 'placement.stragglers = "replace"'),
        (
            '[policy]\nadmission = "gpu_quotas"\n[[virtual_cluster]]\nname = "a"\naccounts = ["a"]\n'
            'cells = [{ level = "node", count = 1 }]',
            "virtual_cluster",
        ),
    ],
)
def test_mode_assist_refuses_what_slurm_does_itself(file: Path, text: str, named: str) -> None:
    file.write_text(f'mode = "assist"\n{text}')
    with pytest.raises(UsageError, match=f"{named}.*: not in mode assist") as found:
        load(file, {}, {})
    assert "\n" not in str(found.value)
    file.write_text('mode = "assist"')
    assert load(file, {}, {}).config.acts
