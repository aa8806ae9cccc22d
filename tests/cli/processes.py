"""Commands as processes, and what they print."""

import os
import select
import subprocess
import sys
import time
from pathlib import Path

LIVEJOIN = str(Path(sys.executable).with_name("livejoin"))
LIMIT_S = 30


def read_until(process: "subprocess.Popen[bytes]", fd: int, expected: bytes) -> bytes:
    """Read the output of a process until it contains a text."""
    output, deadline = b"", time.monotonic() + LIMIT_S
    while expected not in output:
        assert time.monotonic() < deadline, output
        assert process.poll() is None, output
        if select.select([fd], [], [], 0.1)[0]:
            output += os.read(fd, 65536)
    return output
