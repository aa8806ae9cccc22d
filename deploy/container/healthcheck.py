"""Whether the livejoin of this container lives: /livez, under the address of its settings.

    python healthcheck.py SETTINGS.yaml

Exits with 0 if it does, otherwise with 1 and the reason.
"""

import http.client
import ssl
import sys
from pathlib import Path

from livejoin.config import settings
from livejoin.errors import LivejoinError

_TIMEOUT_S = 5
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - asked on loopback instead


def problem(file: Path) -> str:
    """Return what is wrong, or empty."""
    try:
        chosen = settings.load(file).http
    except LivejoinError as error:
        return str(error)
    where = (_WILDCARDS.get(chosen.host, chosen.host), chosen.port)
    connection = http.client.HTTPConnection(*where, timeout=_TIMEOUT_S)
    if chosen.tls.certificate:
        # its certificate has the public name; the other end is this container's own process
        context = ssl._create_unverified_context()  # noqa: SLF001, S323 - see above
        connection = http.client.HTTPSConnection(*where, timeout=_TIMEOUT_S, context=context)
    try:
        connection.request("GET", "/livez")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"no answer at port {chosen.port}: {error or type(error).__name__}"
    finally:
        connection.close()
    return "" if status == http.HTTPStatus.OK else f"/livez answers {status}"


if __name__ == "__main__":
    found = problem(Path(sys.argv[1]))
    sys.exit(f"livejoin: {found}" if found else 0)
