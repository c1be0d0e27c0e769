"""The option --preset of `tiresias simulate`, and the simulations that it names."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tiresias.errors import UsageError
from tiresias.scheduler.tenants.tenant_rules import TENANT_RULES
from tiresias.simulator.experiments.experiment import Experiment, Setup
from tiresias.simulator.presets import Preset, names, preset


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--preset", type=_presets, metavar="NAME[,NAME...]",
        help=f"in place of --policy and all options on the policy, sizes and placement: some of {', '.join(names())}, or files of "
        "this form, which the controller reads too (etc/presets)",
    )  # fmt: skip


def _presets(text: str) -> dict[str, Preset]:
    found = text.split(",")
    for place, name in enumerate(found):
        if name in found[:place]:
            raise UsageError(f"--preset: {name} occurs twice; remove one")
    return {name: preset(name) for name in found}


def tenant_rule(presets: Mapping[str, Preset], admission: str) -> str:
    """Return the rule by which tenants share the cluster: that of the presets, else that of --admission.

    Raises:
        UsageError: Two presets have different rules.
    """
    rules = sorted({each.config.admission for each in presets.values()} & TENANT_RULES.keys())
    if len(rules) > 1:
        raise UsageError(f"--preset: {' and '.join(rules)} share the cluster differently; simulate one at a time")
    return rules[0] if rules else admission


def experiments(presets: Mapping[str, Preset], setup: Setup) -> dict[str, Experiment]:
    """Return the experiment of each preset."""
    return {name: _experiment(each, setup) for name, each in presets.items()}


def intervals_in_words(presets: Mapping[str, Preset], setup: Setup) -> Iterator[str]:
    """Yield a sentence for each preset that decides at an interval of its own."""
    for name, each in presets.items():
        if setup.interval is None and each.config.interval:
            yield f"{name} decides every {each.config.interval:g} s."


def _experiment(chosen: Preset, setup: Setup) -> Experiment:
    has_tenants = chosen.config.admission in TENANT_RULES
    config = replace(chosen.config, admission="shared") if has_tenants else chosen.config  # within each tenant
    tenants = setup.tenants if has_tenants else None
    by_node = setup.by_node or chosen.placement is not None
    return replace(setup, placement=chosen.placement, tenants=tenants, by_node=by_node).experiment(config.name, config)
