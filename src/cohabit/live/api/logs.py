"""The log of a server on standard error: plain lines for people, or one JSON document per line for programs."""

from __future__ import annotations

import logging

import msgspec

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
_PLAIN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonLines(logging.Formatter):
    """at, level, logger, message; what was given as `extra`; a traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        line = {
            "at": record.created,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _PLAIN}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def set_up(level: str, form: str) -> None:
    """Write all log records in this form from now on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else logging.Formatter("cohabit: %(message)s"))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    if level != "debug":
        for chatty in ("httpx", "uvicorn.error", "asyncio"):
            logging.getLogger(chatty).setLevel(logging.WARNING)
