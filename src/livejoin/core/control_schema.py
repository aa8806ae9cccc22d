"""JSON Schema of a control message, for editors and validators."""

from typing import Any, get_args

from livejoin.core import spec
from livejoin.core.control_messages import MAX_ID_CHARS, Action

_TOPIC = {
    "type": ["string", "null"],
    "pattern": r"^\s*(?!__)[A-Za-z0-9._-]{0,249}\s*$",
}
_START = {"type": "string", "description": spec.START_EXPECTED}

CONTROL: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "livejoin control message",
    "description": "Any subset; what is missing, null or blank keeps the newest accepted choice.",
    "type": "object",
    "minProperties": 1,
    "properties": {
        "usersTopic": {**_TOPIC, "description": "topic of the users"},
        "accountsTopic": {**_TOPIC, "description": "topic of the accounts; another one"},
        "joinType": {
            "type": ["string", "null"],
            "description": "trimmed, in any case",
            "examples": [*get_args(spec.Join)],
        },
        "action": {"type": ["string", "null"], "examples": [*get_args(Action)]},
        "id": {
            "type": ["string", "null"],
            "maxLength": MAX_ID_CHARS,
            "description": "echoed in every outcome; seen again, it is a no-op",
        },
        "expectedGeneration": {
            "type": ["integer", "null"],
            "description": "the message is rejected if another one is live",
        },
        "start": {
            "description": "where reading starts, for this swap; forces a new build",
            "oneOf": [
                {"type": "null"},
                _START,
                {
                    "type": "object",
                    "properties": {source.name: _START for source in spec.SOURCES},
                    "additionalProperties": False,
                },
            ],
        },
    },
}
