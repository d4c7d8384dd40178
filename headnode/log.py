"""Logs: for people on a terminal, as JSON anywhere else. Nothing but warnings unless asked for more."""

import logging
import sys
from typing import Any

import structlog


def configure(*, verbose: bool = False, json: bool | None = None) -> None:
    """Set up logging once; a service calls it at its start, the command line for -v."""
    as_json = not sys.stderr.isatty() if json is None else json
    renderer: Any = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info if as_json else structlog.processors.StackInfoRenderer(),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if verbose else logging.INFO),
        # Looked up at every line, so that a redirected stderr (tests, services) is honoured.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )


def logger(name: str) -> Any:
    """A logger; silent below warnings until `configure` has been called."""
    if not structlog.is_configured():
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        )
    return structlog.get_logger(component=name)
