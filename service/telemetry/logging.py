"""The service's own log: lines of JSON for machines, of text for people.

Owns the format. Log lines contain no secrets, and nothing that a caller sent except ids.
"""

from __future__ import annotations

import json
import logging
import logging.config
import os
import sys
from datetime import UTC, datetime
from typing import Any, Final

from policy.escaping import escape_line
from policy.masking import HIDDEN, masked_message

STANDARD_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "color_message",
    "taskName",
}
"""The standard fields of a record; all others are extra."""
MAX_FOREIGN_MESSAGE: Final = 1024
"""How many characters of a message of OpenTelemetry's are shown."""


class JsonFormatter(logging.Formatter):
    """A record as a line of JSON: time, level, logger, message, and its extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        timestamp = (
            datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
        document: dict[str, Any] = {
            "timestamp": timestamp,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        document |= {name: value for name, value in vars(record).items() if name not in STANDARD_FIELDS}
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return escape_line(json.dumps(document, ensure_ascii=False, default=str))


class TextFormatter(logging.Formatter):
    """A record as a line of text: level, message, and its extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        extra = "".join(
            f" {name}={_field_text(value)}" for name, value in vars(record).items() if name not in STANDARD_FIELDS
        )
        trace = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return f"{record.levelname}:     {_message(record)}{extra}{trace}"


def _message(record: logging.LogRecord) -> str:
    """The message of a record; those of OpenTelemetry may quote anything, at any length."""
    text = record.getMessage()
    if not record.name.startswith("opentelemetry"):
        return text
    shown = masked_message(text)  # cut before, it could end within what shows a secret
    return shown if len(shown) <= MAX_FOREIGN_MESSAGE else f"{shown[:MAX_FOREIGN_MESSAGE]}{HIDDEN}"


def _field_text(value: Any) -> str:
    """The text of a field's value, quoted if it could end the line or look like another field."""
    text = str(value)
    return (
        text
        if text.isprintable() and " " not in text and "=" not in text
        else json.dumps(value, ensure_ascii=not text.isprintable(), default=str)
    )


def is_text(form: str | None) -> bool:
    """Whether log lines are text; by default, without a ``form``, they are on a terminal."""
    return sys.stderr.isatty() if form is None else form == "text"


def configuration(form: str | None) -> dict[str, Any]:
    """The configuration of Python's logging (``logging.config``); ``form`` is ``text`` or ``json``.

    By default it is text on a terminal, else JSON.
    """
    own = {"handlers": ["stderr"], "level": "INFO", "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"own": {"()": f"{__name__}.{'TextFormatter' if is_text(form) else 'JsonFormatter'}"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "own", "stream": "ext://sys.stderr"}},
        "loggers": {
            "uvicorn": own,
            "uvicorn.error": {"level": "INFO"},
            "runner_policy": own,
            "opentelemetry": own,
            "opentelemetry.baggage": {"level": "ERROR"},  # it warns of each malformed header, and quotes it
            "opentelemetry.trace": {"level": "ERROR"},  # as above
            "dulwich.client": {"level": "ERROR"},  # it warns at each fetch from a remote without filters
            "python_multipart": {"level": "ERROR"},  # it warns of each malformed form, which is answered with a problem
        },
        "root": {"handlers": ["stderr"], "level": "WARNING"},
    }


def configure_worker() -> None:
    """Configure a worker process's logging like the serving process's, from the settings in the environment."""
    logging.config.dictConfig(configuration(os.environ.get("RUNNER_POLICY_LOG_FORMAT")))
