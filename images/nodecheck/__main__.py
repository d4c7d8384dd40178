"""Expectations come in as JSON, checks go out as JSON."""

import json
import sys

from . import burnin
from .gather import everything


def main() -> int:
    expected = json.load(sys.stdin)
    found = everything(expected)
    seconds = expected.get("burn_in")
    if isinstance(seconds, int) and seconds > 0:
        found += burnin.run(seconds)
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
