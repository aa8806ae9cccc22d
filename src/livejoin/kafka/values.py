"""Property values, of which secrets do not print."""

from collections.abc import Mapping

from pydantic import SecretStr

Values = Mapping[str, str | SecretStr]


def reveal(values: Values) -> dict[str, str]:
    """The values with their secrets as plain text."""
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in values.items()
    }
