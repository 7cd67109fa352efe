"""Log lines: structlog, as JSON where standard error is no terminal; arq's lines go the same way."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog

from match_ratings_worker.safe_text import printable

_PASSWORD = re.compile(r"(\w+://[^:/@\s]*):[^@/\s]+@")


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _PASSWORD.sub(r"\1:***@", value)
    if isinstance(value, Mapping):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value


def _without_passwords(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        event[key] = _clean(value)
    return event


def _safe_for_terminals(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str) and key != "exception":
            event[key] = printable(value)
    return event


def _with_pid(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    event["pid"] = os.getpid()
    return event


class _Reroute(logging.Filter):
    """Hands a logger's records to one handler and no other.

    The arq command replaces the handlers of its loggers after it has read our settings, but not their
    filters.
    """

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__()
        self._handler = handler

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.getLogger().level:
            self._handler.handle(record)
        return False


def configure_logging(level: str = "info", form: str = "auto") -> None:
    """Set up structlog and the standard library's logging for this process, on standard error.

    `level` is debug, info, warning or error; `form` is json, console, or auto.
    """
    as_json = form == "json" or (form == "auto" and not sys.stderr.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _with_pid,
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    last: list[Any] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, _without_passwords]
    if as_json:
        last += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        last += [_safe_for_terminals, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    handler = logging.StreamHandler()
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=[*shared], processors=last))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("arq.worker", "arq.connections"):
        logger = logging.getLogger(name)
        logger.filters[:] = [_Reroute(handler)]
