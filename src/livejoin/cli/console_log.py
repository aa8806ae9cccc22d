"""The log on standard error: one format for our lines and those of libraries, escaped."""

import logging
import sys
import time
from typing import Any

import structlog

from livejoin import redaction
from livejoin.cli import colours
from livejoin.cli.output import escape_unprintable, format_time


def configure_logging() -> None:
    """Send human-readable log lines to standard error."""
    handler = logging.StreamHandler()
    handler.addFilter(_drop_py4j)
    handler.setFormatter(_EscapingFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            _add_time,
            structlog.processors.format_exc_info,
            _escape_values,
            structlog.dev.ConsoleRenderer(
                colors=colours.enabled(sys.stderr),
                exception_formatter=structlog.dev.plain_traceback,
            ),
            _redact_line,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _add_time(_logger: Any, _method: str, event: Any) -> Any:
    """Add the time, in the one format of all texts."""
    return {**event, "timestamp": format_time(time.time() * 1000)}


def _drop_py4j(record: logging.LogRecord) -> bool:
    """Drop py4j's tracebacks about a JVM that is gone; the status reports it."""
    return "py4j" not in record.pathname


def _redact_line(_logger: Any, _method: str, line: Any) -> str:
    """Redact known secrets in a log line."""
    return redaction.redact(str(line))


def _escape_values(_logger: Any, _method: str, event: Any) -> Any:
    """Escape untrusted values, before the renderer adds its own colour codes."""
    return {
        name: escape_unprintable(value, keep="\n" if name == "exception" else "")
        if isinstance(value, str)
        else value
        for name, value in event.items()
    }


class _EscapingFormatter(logging.Formatter):
    """Escapes the log lines of libraries."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record; a traceback keeps its line breaks."""
        return escape_unprintable(super().format(record), keep="\n")
