"""A broker that requires a login: one listener per mechanism, certificates of a test authority.

The PLAINTEXT listener is for the test itself, to prepare and to check.
"""

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from livejoin.kafka import properties
from livejoin.kafka.cluster import Kafka
from rig import brokers
from rig.authority import Authority, SignedCertificate
from rig.provider import AUDIENCE, Provider

USER, PASSWORD = "livejoin", "canary-password-7d1f"
CLIENT_SECRET = "canary-client-secret-93ab"
_MODULES = "org.apache.kafka.common.security"
_OAUTH = f"{_MODULES}.oauthbearer"
WAYS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "SSL")
_WRONG = ("EXPIRED", "ELSEWHERE")
_LISTENERS = {"PLAIN": "PLAIN", "SCRAM-SHA-256": "SCRAM", "SCRAM-SHA-512": "SCRAM",
              "OAUTHBEARER": "OAUTH", "SSL": "MUTUAL"}  # fmt: skip


@dataclass(frozen=True)
class SecureBroker:
    """The broker and the credentials for it."""

    open: Kafka
    authority: Authority
    ports: Mapping[str, int]
    provider: Provider | None
    own: SignedCertificate
    folder: Path = field(default=Path())

    def settings_for(self, way: str) -> dict[str, str]:
        """Return the Kafka settings for one mechanism."""
        port = self.ports[_LISTENERS[way]]
        found = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "ssl.ca.location": str(self.folder / "ca.pem"),
        }
        if way == "SSL":
            return found | {
                "security.protocol": "SSL",
                "ssl.certificate.pem": self.own.pem,
                "ssl.key.pem": self.own.key_pem(),
            }
        found |= {"security.protocol": "sasl_ssl", "sasl.mechanism": way}
        if way != "OAUTHBEARER":
            return found | {"sasl.username": USER, "sasl.password": PASSWORD}
        assert self.provider is not None
        return found | {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": USER,
            "sasl.oauthbearer.client.secret": CLIENT_SECRET,
            "sasl.oauthbearer.token.endpoint.url": self.provider.token_url,
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-2",
            "https.ca.location": str(self.folder / "ca.pem"),
        }

    def kafka_for(self, way: str, **more: str) -> Kafka:
        """Return Kafka for the test itself; a livejoin started with it gets only this mechanism.

        Secrets are in their own files.
        """
        one, written = Kafka(self.open.properties), {}
        for name, value in {**self.settings_for(way), **more}.items():
            written[name] = value
            if properties.is_secret(name):
                file = self.folder / name
                file.write_text(value)
                written[name] = f"${{file:{file}}}"
        one.properties = written
        return one

    def bad_certificate(self, how: str) -> dict[str, str]:
        """Return settings for a listener with a wrong certificate: `EXPIRED` or `ELSEWHERE`."""
        return self.settings_for("SSL") | {"bootstrap.servers": f"127.0.0.1:{self.ports[how]}"}


@contextlib.contextmanager
def secure(
    folder: Path,
    authority: Authority,
    provider: Provider | None = None,
    *,
    more: Mapping[str, str] | None = None,
) -> Iterator[SecureBroker]:
    """Run a broker with all listeners; OAUTHBEARER only with a provider."""
    chosen = listeners(folder, authority, provider)
    settings = {**chosen.settings, **(more or {})}
    options = chosen.java_options
    with brokers.broker(folder / "broker", more=settings, java_options=options) as kafka:
        _make_scram_users(kafka)
        yield SecureBroker(kafka, authority, chosen.ports, provider, authority.sign(USER), folder)


class RestartableBroker:
    """A broker with all listeners but OAUTHBEARER, which can be killed, frozen and restarted."""

    def __init__(self, folder: Path) -> None:
        authority = Authority()
        chosen = listeners(folder, authority)
        self._broker = brokers.Broker(folder / "broker", brokers.lasting_port(), chosen.settings)
        kafka = self._broker.start()
        _make_scram_users(kafka)
        own = authority.sign(USER)
        self.secure = SecureBroker(kafka, authority, chosen.ports, None, own, folder)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self._broker.kill()

    def restart(self) -> None:
        """Start it again, with its data."""
        self._broker.start()

    def freeze(self) -> None:
        """Stop it with SIGSTOP: connections stay open, and nothing answers."""
        os.kill(self._broker.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue it."""
        os.kill(self._broker.pid, signal.SIGCONT)

    def close(self) -> None:
        """End it."""
        self._broker.close()


@dataclass(frozen=True)
class Listeners:
    """The listeners of a broker: ports by name, and what the broker needs for them."""

    ports: Mapping[str, int]
    settings: Mapping[str, str]
    java_options: Sequence[str] = ()


def listeners(folder: Path, authority: Authority, provider: Provider | None = None) -> Listeners:
    """Write the certificates and choose the ports of all listeners."""
    folder.mkdir(parents=True, exist_ok=True)
    authority.file(folder / "ca.pem")
    ports = {name: brokers.lasting_port() for name in ("PLAIN", "SCRAM", "MUTUAL", *_WRONG)}
    options: Sequence[str] = ()
    settings = _common(folder, authority) | _wrong(folder, authority)
    if provider is not None:
        ports["OAUTH"] = brokers.lasting_port()
        settings |= _oauth(folder, provider)
        options = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.keys_url}"]
    names = {name: "SSL" if name in ("MUTUAL", *_WRONG) else "SASL_SSL" for name in ports}
    names |= {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
    settings |= {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(f"{n}:{how}" for n, how in names.items()),
    }
    return Listeners(ports, settings, options)


def _wrong(folder: Path, authority: Authority) -> dict[str, str]:
    """Listeners with an expired certificate, and with that of another host."""
    signed = {
        "expired": authority.sign("broker", life=-timedelta(days=1)),
        "elsewhere": authority.sign("broker", host="kafka.example"),
    }
    return {
        f"listener.name.{name}.ssl.keystore.location": str(one.keystore(folder / f"{name}.pem"))
        for name, one in signed.items()
    }


def _common(folder: Path, authority: Authority) -> dict[str, str]:
    certificate = authority.sign("broker")
    plain = f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    scram = f"{_MODULES}.scram.ScramLoginModule required;"
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificate.keystore(folder / "broker.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/,DEFAULT",
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.plain.plain.sasl.jaas.config": plain,
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.scram.scram-sha-256.sasl.jaas.config": scram,
        "listener.name.scram.scram-sha-512.sasl.jaas.config": scram,
    }


def _oauth(folder: Path, provider: Provider) -> dict[str, str]:
    # the broker itself does not log in, but its module requires a name if any option is given
    jaas = (
        f"{_OAUTH}.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=broker"
        f' ssl.truststore.type=PEM ssl.truststore.location="{folder / "ca.pem"}";'
    )
    one = "listener.name.oauth.oauthbearer.sasl"
    return {
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{one}.jaas.config": jaas,
        f"{one}.server.callback.handler.class": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
        # the default is an hour, or less for a new key id, which this provider never has
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": "5000",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": provider.issuer,
    }


def _make_scram_users(kafka: Kafka) -> None:
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, 4096)
        upsertion = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
        for done in kafka.admin.alter_user_scram_credentials([upsertion]).values():
            done.result(10)
