"""The sockets that processes listen on, as listed by the kernel."""

import contextlib
import ipaddress
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_LISTENS = "0A"  # the state LISTEN in /proc/net/tcp


class Listening(NamedTuple):
    """A listening socket."""

    pid: int
    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect."""
        mapped = getattr(self.address, "ipv4_mapped", None)
        return (mapped or self.address).is_loopback


def listening(pids: Iterable[int]) -> list[Listening]:
    """Return the listening TCP sockets of these processes."""
    places = _places()
    return [
        Listening(pid, *places[inode]) for pid in pids for inode in _sockets(pid) if inode in places
    ]


def _places() -> dict[str, tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]]:
    """Return address and port of every listening socket, by inode."""
    found = {}
    for file in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
            for line in Path(file).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS:
                    found[fields[9]] = _address(fields[1])
    return found


def _address(text: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]:
    """Parse the kernel's format: words of four bytes, each in native byte order."""
    digits, _, port = text.partition(":")
    raw = b"".join(bytes.fromhex(word)[::-1] for word in re.findall(".{8}", digits))
    return ipaddress.ip_address(raw), int(port, 16)


def _sockets(pid: int) -> set[str]:
    """Return the inodes of a process's sockets; none if it has ended."""
    found = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                if one := re.fullmatch(r"socket:\[(\d+)\]", str(entry.readlink())):
                    found.add(one[1])
    return found
