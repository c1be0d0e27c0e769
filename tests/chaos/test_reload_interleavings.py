"""Other virtual clusters for a controller at any moment of a start, against the model of Slurm.

A reload is refused where it takes cells from a job that holds them, or that is being started in them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.chaos.mortal_controller import SITE
from tests.chaos.test_interleavings import FEW
from tests.chaos.test_opportunistic_interleavings import OWNER_ACCOUNT, OpportunisticInterleavings
from tiresias.errors import Unavailable, UsageError
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.slurm_plugin.config import Config, VirtualClusterConfig
from tiresias.slurm_plugin.controller import Controller

TAKES = "runs in cells that this change takes from it"
LIMIT = 40  # cycles in which a condition of these tests becomes true


class ReloadInterleavings(OpportunisticInterleavings):
    """Virtual clusters that change at any moment; all that holds without reloads holds with them."""

    @rule(
        owned=st.sampled_from(
            [{OWNER_ACCOUNT: 1}, {OWNER_ACCOUNT: 2}, {"other": 1}, {OWNER_ACCOUNT: 1, "other": 1}, {"other": 3}]
        )
    )
    def reload(self, owned: dict[str, int]) -> None:
        self._do(lambda controller: self.reload_or_keep(controller, declared(self.config, owned)))

    def _run_to_the_end(self) -> None:
        """With the virtual clusters of the beginning, without which some jobs may not run: a controller that starts reads them."""
        if self.controller:
            self._die()
        super()._run_to_the_end()

    def reload_or_keep(self, controller: Controller, config: Config) -> None:
        """Reload; a refusal changes nothing."""
        before = controller._config, controller._pools
        try:
            controller.reconfigure(config, SITE, ["virtual_cluster"])
        except (UsageError, Unavailable):
            assert (controller._config, controller._pools) == before


def declared(config: Config, owned: dict[str, int]) -> Config:
    """Return the configuration with virtual clusters of so many nodes each, by account."""
    tables = (
        VirtualClusterConfig(
            tenant=DeclaredTenant(name, (DeclaredCells("node", nodes),)), policy=config.policy, accounts=(name,)
        )
        for name, nodes in owned.items()
    )
    return replace(config, virtual_clusters=tuple(tables))


class MoreReloadInterleavings(ReloadInterleavings):
    """The same with more examples, for `make test-long`."""


@pytest.fixture
def machine() -> Iterator[OpportunisticInterleavings]:
    """A controller with a virtual cluster that owns one of two nodes."""
    found = OpportunisticInterleavings()
    found.open()
    yield found
    found.teardown()


def cycle_until(machine: OpportunisticInterleavings, condition: Callable[[], bool]) -> None:
    """Run cycles until a condition holds just after one."""
    for _ in range(LIMIT):
        machine._do(Controller.cycle)
        if condition():
            return
        machine.slurm.pass_time(0.5)
        machine._do(Controller.poll)
    raise AssertionError("the condition does not become true")


def take_cells(machine: OpportunisticInterleavings) -> None:
    """Reload a configuration that has no cells for the jobs of the virtual cluster."""
    assert machine.controller is not None
    machine.controller.reconfigure(declared(machine.config, {"other": 2}), SITE, ["virtual_cluster"])


def cells_of(machine: OpportunisticInterleavings, job: str) -> str:
    found = machine._query(f"select cells from run join job using (key) where id = '{job}'")
    return str(found[-1][0]) if found else ""


def test_a_start_of_the_newest_cycle_holds_its_cells(machine: OpportunisticInterleavings) -> None:
    machine.submit_of_owner(4, 20.0)
    cycle_until(machine, lambda: any(intent.cells for intent in machine.journal.open_intents()))
    with pytest.raises(UsageError, match=f"virtual cluster {OWNER_ACCOUNT}: job 1 {TAKES}"):
        take_cells(machine)


def test_cells_that_a_job_was_given_where_it_runs_are_held(machine: OpportunisticInterleavings) -> None:
    machine.submit_of_owner(4, 4.0)
    machine.submit_of_owner(4, 20.0)
    cycle_until(machine, lambda: machine.slurm.jobs["2"].state == "RUNNING")
    assert cells_of(machine, "2") == "", "it runs beyond the cells"
    cycle_until(machine, lambda: bool(cells_of(machine, "2")))
    with pytest.raises(UsageError, match=f"job 2 {TAKES}"):
        take_cells(machine)


def test_a_controller_without_a_cycle_finds_the_cells_in_the_journal(machine: OpportunisticInterleavings) -> None:
    machine.submit_of_owner(4, 20.0)
    cycle_until(machine, lambda: machine.slurm.jobs["1"].state == "RUNNING" and bool(cells_of(machine, "1")))
    machine._die()
    machine._live()
    with pytest.raises(UsageError, match=f"job 1 {TAKES}"):
        take_cells(machine)


def started_again(machine: OpportunisticInterleavings, caplog: pytest.LogCaptureFixture, config: Config) -> list[str]:
    """Return the warnings in the first two cycles of a controller with another configuration."""
    machine._die()
    machine.config = config
    machine._live()
    with caplog.at_level(logging.WARNING, "tiresias"):
        machine._do(Controller.cycle)
        machine._do(Controller.cycle)
    return [record.getMessage() for record in caplog.records if "does not have now" in record.getMessage()]


def test_a_controller_that_starts_reports_cells_that_it_lacks(
    machine: OpportunisticInterleavings, caplog: pytest.LogCaptureFixture
) -> None:
    machine.submit_of_owner(4, 20.0)
    cycle_until(machine, lambda: machine.slurm.jobs["1"].state == "RUNNING" and bool(cells_of(machine, "1")))
    own = machine.config
    assert started_again(machine, caplog, own) == []
    [words] = started_again(machine, caplog, declared(own, {"other": 2}))
    assert words.startswith("job 1 runs in cells that its virtual cluster does not have now")
    assert [row for (row,) in machine._query("select why from decision where action = 'reload'")] == [words]
    assert cells_of(machine, "1") == ""
    machine.config = own


def test_while_slurm_does_not_answer_cells_do_not_change(machine: OpportunisticInterleavings) -> None:
    machine.submit_of_owner(4, 20.0)
    machine.work(2)
    assert machine.controller is not None
    before = machine.controller._config
    machine.slurm_fails_soon(1)
    with pytest.raises(Unavailable):
        take_cells(machine)
    assert machine.controller._config is before


ReloadInterleavings.TestCase.settings = settings(FEW, max_examples=4)
MoreReloadInterleavings.TestCase.settings = settings(FEW, max_examples=60)
TestReloadInterleavings = pytest.mark.slow(ReloadInterleavings.TestCase)
TestMoreReloadInterleavings = pytest.mark.slow(pytest.mark.long(MoreReloadInterleavings.TestCase))
