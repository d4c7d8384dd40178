"""The inventory: nodes, NICs, BMCs, groups, deployments, tokens and events. The only place that talks SQL.

Reading is free. Every change is one transaction opened with `Inventory.change`, which knows who acts and why,
takes the writers' lock first, and gives all that it touches one new revision number.
"""

from headnode.inventory.changes import Change
from headnode.inventory.store import Inventory

__all__ = ["Change", "Inventory"]
