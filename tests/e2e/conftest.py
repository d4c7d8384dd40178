"""Labs for tests that boot machines: small ones as in tests/integration, and one cluster for all journeys."""

import os
from collections.abc import Iterator

import pytest

from tests.e2e.cluster import Cluster, running_cluster
from tests.integration.conftest import lab_name, no_leftovers, running_lab

__all__ = ["cluster", "lab_name", "no_leftovers", "running_lab"]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """See tests/e2e/cluster.py."""
    with running_cluster(f"c{os.getpid():x}") as made:
        yield made
