"""The livejoin that a command sends requests to."""

from dataclasses import replace

from livejoin.client import credentials
from livejoin.client.endpoint import ClientProgram, Endpoint

COMMAND_LINE = ClientProgram(
    "cli",
    url_hint="Start one with `livejoin demo`, or set its URL with --url.",
    access_hint=f"Set a token in the environment variable {credentials.ENVIRONMENT_VARIABLE}.",
)


def endpoint(url: str) -> Endpoint:
    """Return the livejoin at a URL, with the token of the environment or the stored one."""
    checked = Endpoint(url, program=COMMAND_LINE)
    return replace(checked, token=credentials.find_token(url))
