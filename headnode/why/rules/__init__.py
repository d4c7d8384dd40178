"""One small file for each cause. A rule is asked about every case, and answers with a finding or with nothing."""

import importlib
import pkgutil
from collections.abc import Callable

from headnode.why.case import Finding, View

Rule = Callable[[View], Finding | None]
NAMES: tuple[str, ...] = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))
RULES: tuple[Rule, ...] = tuple(importlib.import_module(f"{__name__}.{name}").look for name in NAMES)
