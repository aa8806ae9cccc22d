"""JSON objects in records, requests and files that anybody may have written."""

import json
from typing import Any


def parse_object(data: bytes | str) -> dict[str, Any] | None:
    """The JSON object that a text is; None if it cannot be decoded or parsed, or is no object."""
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError):  # also not UTF-8, or a number with thousands of digits
        return None
    return parsed if isinstance(parsed, dict) else None
