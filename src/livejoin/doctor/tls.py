"""A TLS handshake of its own, for what Kafka's client does not say about one that failed."""

import socket
import ssl

from livejoin.doctor.findings import in_background
from livejoin.kafka.cluster import Kafka

_HANDSHAKE_S = 3.0


def explain(kafka: Kafka, host: str, port: int) -> str:
    """Why a login may have failed, as far as TLS tells; empty if it does not."""
    try:
        return in_background(lambda: _explain(kafka.trusted_ca, host, port)).result(_HANDSHAKE_S)
    except (OSError, TimeoutError):  # it speaks no TLS, or no longer answers
        return ""


def _explain(trusted_ca: str | None, host: str, port: int) -> str:
    with socket.create_connection((host, port), _HANDSHAKE_S) as connection:
        if trusted_ca is None:
            anyone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            anyone.check_hostname = False
            anyone.verify_mode = ssl.CERT_NONE  # nothing is sent
            with anyone.wrap_socket(connection, server_hostname=host):
                return "the broker speaks TLS there, and security.protocol has none"
        try:
            verified = ssl.create_default_context(cadata=trusted_ca or None)
            with verified.wrap_socket(connection, server_hostname=host):
                return ""
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
