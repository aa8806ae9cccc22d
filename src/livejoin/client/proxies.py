"""Which addresses are asked through a proxy: never this machine's own, otherwise as usual.

A proxy reads what goes to an address without TLS, the token too, and could not reach our loopback.
"""

import ipaddress
import socket
import urllib.request
from urllib.parse import urlsplit


def is_loopback(url: str) -> bool:
    """Whether an address is this machine itself, by what is written there."""
    host = (urlsplit(url).hostname or "").removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        try:
            found = ipaddress.ip_address(socket.inet_aton(host))  # 127.1 is an address too
        except OSError:
            return False
    mapped = getattr(found, "ipv4_mapped", None) or found
    return bool(mapped.is_loopback or mapped.is_unspecified)


def build_opener(url: str, *handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """Asks an address; `http_proxy`, `https_proxy` and `no_proxy` count for other machines only."""
    direct = [urllib.request.ProxyHandler({})] if is_loopback(url) else []
    return urllib.request.build_opener(*handlers, *direct)
