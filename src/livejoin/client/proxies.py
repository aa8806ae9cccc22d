"""Proxy selection: none for loopback URLs, the environment's for others.

Without TLS a proxy would see the token, and it cannot reach this machine's loopback anyway.
"""

import ipaddress
import socket
import urllib.request
from urllib.parse import urlsplit


def is_loopback(url: str) -> bool:
    """Whether a URL names this machine, judged by its text, without DNS."""
    host = (urlsplit(url).hostname or "").removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        try:
            address = ipaddress.ip_address(socket.inet_aton(host))  # accepts 127.1
        except OSError:
            return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_unspecified)


def build_opener(url: str, *handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """Return an opener for a URL; `http_proxy` etc. apply to other machines only."""
    direct = [urllib.request.ProxyHandler({})] if is_loopback(url) else []
    return urllib.request.build_opener(*handlers, *direct)
