"""Labs for tests that boot machines, as in tests/integration."""

from tests.integration.conftest import lab_name, no_leftovers, running_lab

__all__ = ["lab_name", "no_leftovers", "running_lab"]
