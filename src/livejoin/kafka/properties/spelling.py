"""How a property's name may be written."""

from livejoin.kafka.properties import table

EXTENSIONS = table.EXTENSIONS[0]


def canonical_name(key: str) -> str:
    """A property's name as the table has it; environment variables cannot hold its dots."""
    for prefix in table.EXTENSIONS:
        if key.lower().startswith(prefix) and len(key) > len(prefix):
            return EXTENSIONS + key[len(prefix) :]
    name = key.lower()
    return name if name == "log_level" else name.replace("_", ".")


def is_secret(name: str) -> bool:
    """Whether a property's value must not be shown."""
    return canonical_name(name) in table.SECRET
