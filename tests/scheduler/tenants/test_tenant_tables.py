"""Tables of virtual clusters are read, and what cannot be meant is refused in one line that names the virtual cluster."""

from __future__ import annotations

from typing import Any

import pytest

from tiresias.errors import UsageError
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.tenant_tables import declared_tenant

NODE = {"level": "node", "count": 2}
PINNED = {"level": "node", "nodes": "gpu07"}


def test_a_table() -> None:
    cells = [{"level": "leaf", "count": 1}, {**NODE, "gpu_type": "h100"}]
    found = declared_tenant({"name": "one", "cells": cells, "opportunistic": False, "accounts": ["a"]}, ("accounts",))
    assert found == DeclaredTenant("one", (DeclaredCells("leaf", 1), DeclaredCells("node", 2, "h100")), False)


def test_cells_that_name_their_hardware() -> None:
    socket = {"level": "socket", "nodes": "gpu09", "gpus": "0-3"}
    tables = [{"level": "leaf", "nodes": "gpu[05-06]"}, {**PINNED, "count": 1}, socket, NODE]
    found = declared_tenant({"name": "one", "cells": tables}).cells
    assert found[0] == DeclaredCells("leaf", nodes=("gpu05", "gpu06"))
    assert found[2] == DeclaredCells("socket", nodes=("gpu09",), gpus=(0, 1, 2, 3))
    assert [str(cell) for cell in found] == ["leaf gpu[05-06]", "node gpu07", "socket gpu09 GPUs 0-3", "2 node"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"cells": [NODE]}, "name = None is not possible"),
        ({"name": "a\nb", "cells": [NODE]}, "give a printable name"),
        ({"name": "one"}, "virtual cluster one: it owns no cells"),
        ({"name": "one", "cells": NODE}, "virtual cluster one: it owns no cells"),
        ({"name": "one", "cells": [3]}, "virtual cluster one: cells = 3 is not possible"),
        ({"name": "one", "cells": [{**NODE, "count": 0}]}, "virtual cluster one: count = 0 is not possible"),
        ({"name": "one", "cells": [{**NODE, "count": -1}]}, "virtual cluster one: count = -1 is not possible"),
        ({"name": "one", "cells": [{**NODE, "count": True}]}, "virtual cluster one: count = True is not possible"),
        ({"name": "one", "cells": [{"count": 1}]}, "virtual cluster one: level = None is not possible"),
        ({"name": "one", "cells": [{**NODE, "level": "a\nb"}]}, "virtual cluster one: level = 'a\\nb' is not possible"),
        ({"name": "one", "cells": [{**NODE, "gpu_type": "a\nb"}]}, "gpu_type = 'a\\nb' is not possible"),
        ({"name": "one", "cells": [{**PINNED, "gpus": "9" * 5000}]}, "virtual cluster one: gpus = '999"),
        ({"name": "one", "cells": [{**NODE, "gpu_type": 3}]}, "virtual cluster one: gpu_type = 3 is not possible"),
        ({"name": "one", "cells": [{**NODE, "node": "n1"}]}, "virtual cluster one: cells: unknown key 'node'"),
        ({"name": "one", "cells": [{**PINNED, "nodes": 3}]}, "virtual cluster one: nodes = 3 is not possible"),
        ({"name": "one", "cells": [{**PINNED, "nodes": ""}]}, "virtual cluster one: nodes = '' is not possible"),
        (
            {"name": "one", "cells": [{**PINNED, "nodes": "n[1-999999]"}]},
            "give the nodes of one cell, such as gpu[05-08]",
        ),
        ({"name": "one", "cells": [{**PINNED, "count": 2}]}, "count = 2 beside nodes = 'gpu07'; leave it out"),
        ({"name": "one", "cells": [{**PINNED, "count": 0}]}, "count = 0 beside nodes = 'gpu07'; leave it out"),
        ({"name": "one", "cells": [{**PINNED, "gpu_type": "a"}]}, "gpu_type beside nodes = 'gpu07'; leave it out"),
        ({"name": "one", "cells": [{**PINNED, "gpus": "x"}]}, "virtual cluster one: gpus = 'x' is not possible"),
        ({"name": "one", "cells": [{**PINNED, "gpus": "3-0"}]}, "virtual cluster one: gpus = '3-0' is not possible"),
        (
            {"name": "one", "cells": [{**NODE, "count": 10**10}]},
            "count = 10000000000 is not possible; give a whole number above 0",
        ),
        ({"name": "one", "cells": [{**PINNED, "gpus": 4}]}, "virtual cluster one: gpus = 4 is not possible"),
        (
            {"name": "one", "cells": [{"level": "node", "gpus": "0-3"}]},
            "virtual cluster one: nodes = None is not possible",
        ),
        ({"name": "one", "cells": [NODE], "account": 3}, "virtual cluster one: unknown key 'account'"),
        (
            {"name": "one", "cells": [NODE], "opportunistic": 1},
            "virtual cluster one: opportunistic = 1 is not possible",
        ),
    ],
)
def test_what_cannot_be_meant(table: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        declared_tenant(table)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300, "a long value is cut"
