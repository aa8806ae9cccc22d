"""Which sockets processes listen on, as the kernel lists them."""

import contextlib
import ipaddress
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_LISTENS = "0A"  # the state, as /proc/net/tcp has it


class Listening(NamedTuple):
    """One socket that somebody may connect to."""

    pid: int
    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int

    @property
    def loopback(self) -> bool:
        """Whether nobody but this machine can reach it."""
        mapped = getattr(self.address, "ipv4_mapped", None)
        return (mapped or self.address).is_loopback


def listening(pids: Iterable[int]) -> list[Listening]:
    """The listening TCP sockets of these processes."""
    places = _places()
    return [
        Listening(pid, *places[inode]) for pid in pids for inode in _sockets(pid) if inode in places
    ]


def _places() -> dict[str, tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]]:
    """Address and port of every listening socket, by inode."""
    found = {}
    for file in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
            for line in Path(file).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS:
                    found[fields[9]] = _address(fields[1])
    return found


def _address(text: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]:
    """From the kernel's form: words of four bytes, each in the machine's order."""
    digits, _, port = text.partition(":")
    raw = b"".join(bytes.fromhex(word)[::-1] for word in re.findall(".{8}", digits))
    return ipaddress.ip_address(raw), int(port, 16)


def _sockets(pid: int) -> set[str]:
    """The inodes of a process's sockets; none where it has ended meanwhile."""
    found = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                if one := re.fullmatch(r"socket:\[(\d+)\]", str(entry.readlink())):
                    found.add(one[1])
    return found
