"""Values that do not print, and how to get at them."""

from collections.abc import Mapping

from pydantic import SecretStr

Values = Mapping[str, str | SecretStr]


def reveal(values: Values) -> dict[str, str]:
    """Values with their secrets, for those who need them."""
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in values.items()
    }
