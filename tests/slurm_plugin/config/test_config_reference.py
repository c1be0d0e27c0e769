"""etc/tiresias.toml shows every option with its default, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from tiresias.slurm_plugin.config import Config, load, load_config, options

REFERENCE = Path(__file__).parents[3] / "etc" / "tiresias.toml"


def uncommented() -> str:
    return re.sub(r"(?m)^#(?=[a-z_]+ = )", "", REFERENCE.read_text())


def test_as_shipped_it_changes_nothing() -> None:
    assert load_config(REFERENCE, {}, {}) == Config()


def test_uncommented_it_names_every_option_with_its_default(tmp_path: Path) -> None:
    file = tmp_path / "tiresias.toml"
    file.write_text(uncommented())
    loaded = load(file, {}, {})
    assert loaded.config == Config()
    assert [key for key, source in loaded.sources.items() if source == "default"] == []


def test_the_order_is_that_of_the_declaration() -> None:
    text = uncommented()
    names = [option.name for option in options().values()]
    assert re.findall(r"(?m)^([a-z_]+) = ", text) == names


def test_choices_are_listed() -> None:
    text = REFERENCE.read_text()
    for option in options().values():
        if isinstance(option.default, str):
            assert f"Allowed: {option.allowed}." in text, option.key
