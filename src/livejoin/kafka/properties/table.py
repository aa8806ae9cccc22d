"""Every property of Kafka's clients that is understood, and what becomes of it. The one table.

Two families of clients read the same block: librdkafka (control plane, tables, commands) and the
JVM's kafka-clients (Spark). Where they spell a thing differently, either spelling is understood and
each is given its own. What concerns logins and certificates is in `login` and `certificates`.
"""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The same name, the same meaning, the same values.
BOTH = _names("""
    bootstrap.servers check.crcs client.dns.lookup client.id client.rack compression.type
    connections.max.idle.ms delivery.timeout.ms enable.metrics.push fetch.min.bytes
    max.in.flight.requests.per.connection metadata.max.age.ms metadata.recovery.strategy
    reconnect.backoff.max.ms reconnect.backoff.ms retries retry.backoff.max.ms retry.backoff.ms
    socket.connection.setup.timeout.ms transaction.timeout.ms
""")

# The same meaning under two names: the JVM's, librdkafka's.
RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}

# Older names, and those that one family has besides, by the name used here.
ALIASES = {
    "auto.commit.enable": "enable.auto.commit",
    "compression.codec": "compression.type",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}

# What only one family has goes to that one alone.
JAVA_ONLY = _names("""
    auto.include.jmx.reporter buffer.memory compression.gzip.level compression.lz4.level
    compression.zstd.level default.api.timeout.ms max.block.ms metadata.max.idle.ms metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
    sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
    sasl.oauthbearer.scope.claim.name socket.connection.setup.timeout.max.ms ssl.enabled.protocols
    ssl.protocol
""")
LIBRDKAFKA_ONLY = _names("""
    api.version.fallback.ms api.version.request api.version.request.timeout.ms broker.address.family
    broker.address.ttl broker.version.fallback compression.level debug enable.random.seed
    fetch.error.backoff.ms fetch.queue.backoff.ms log.connection.close log.thread.name log_level
    message.copy.max.bytes metadata.recovery.rebootstrap.trigger.ms
    queue.buffering.backpressure.threshold queue.buffering.max.kbytes queue.buffering.max.messages
    queued.max.messages.kbytes queued.min.messages receive.message.max.bytes
    reconnect.backoff.jitter.ms socket.blocking.max.ms socket.keepalive.enable socket.max.fails
    socket.nagle.disable ssl.crl.location ssl.curves.list ssl.sigalgs.list statistics.interval.ms
    sticky.partitioning.linger.ms topic.metadata.propagation.max.ms
    topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms
    topic.metadata.refresh.sparse
""")

# Understood and of no use here: livejoin's readers and producers depend on their own choice of
# these, or (the last line) they belong to other libraries whose settings stand in the same blocks.
MANAGED = _names("""
    acks allow.auto.create.topics auto.commit.interval.ms batch.num.messages batch.size
    coordinator.query.interval.ms delivery.report.only.error enable.auto.commit
    enable.auto.offset.store enable.gapless.guarantee enable.idempotence enable.partition.eof
    exclude.internal.topics fetch.max.bytes group.id group.instance.id group.protocol
    group.protocol.type group.remote.assignor heartbeat.interval.ms interceptor.classes
    isolation.level key.deserializer key.serializer linger.ms max.partition.fetch.bytes
    max.poll.interval.ms max.poll.records offset.store.method partition.assignment.strategy
    partitioner partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms
    partitioner.class partitioner.ignore.keys queuing.strategy session.timeout.ms
    transactional.id value.deserializer value.serializer
    basic.auth.credentials.source basic.auth.user.info schema.registry.basic.auth.user.info
    schema.registry.url
""")

# Where reading starts; resolved to offsets before any client reads.
START = "auto.offset.reset"

# What `login` and `certificates` make of it is different for each family.
LOGIN = _names("""
    https.ca.location https.ca.pem sasl.jaas.config sasl.login.callback.handler.class sasl.mechanism
    sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.extensions
    sasl.oauthbearer.grant.type sasl.oauthbearer.method sasl.oauthbearer.scope
    sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url sasl.password sasl.username
    security.protocol
""")
CERTIFICATES = _names("""
    enable.ssl.certificate.verification ssl.ca.location ssl.ca.pem ssl.certificate.location
    ssl.certificate.pem ssl.endpoint.identification.algorithm ssl.key.location ssl.key.password
    ssl.key.pem ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
    ssl.keystore.password ssl.keystore.type ssl.truststore.certificates ssl.truststore.location
    ssl.truststore.password ssl.truststore.type
""")

# Extensions of a login by OAUTHBEARER, one property each; what follows keeps its case.
EXTENSION_PREFIX = "sasl.oauthbearer.extensions."
EXTENSIONS = (EXTENSION_PREFIX, "extensions.", "extension_")

_ONE_FAMILY = "only one of livejoin's two families of clients would heed it"
# Refused, and why; a name that ends with a dot stands for all that begin with it.
REFUSED = {
    "enable.sasl.oauthbearer.unsecure.jwt": "tokens that nobody signed prove nothing",
    "sasl.client.callback.handler.class": _ONE_FAMILY,
    "sasl.kerberos.": "Kerberos is not supported",
    "sasl.login.class": _ONE_FAMILY,
    "sasl.oauthbearer.assertion.": "of OAuth only client credentials are supported",
    "sasl.oauthbearer.config": "tokens that nobody signed prove nothing",
    "sasl.oauthbearer.metadata.authentication.type": _ONE_FAMILY,
    "security.providers": _ONE_FAMILY,
    "ssl.ca.certificate.stores": "it is for Windows; name the CA in ssl.ca.location",
    "ssl.cipher.suites": "the two families of clients name ciphers differently; choose them at the"
    " broker",
    "ssl.engine.": _ONE_FAMILY,
    "ssl.keymanager.algorithm": _ONE_FAMILY,
    "ssl.provider": _ONE_FAMILY,
    "ssl.providers": _ONE_FAMILY,
    "ssl.secure.random.implementation": _ONE_FAMILY,
    "ssl.trustmanager.algorithm": _ONE_FAMILY,
}

# Never shown: passwords, keys, and what may hold one.
SECRET = _names("""
    basic.auth.user.info sasl.jaas.config sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.private.key.pem
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.client.secret
    sasl.oauthbearer.config sasl.password schema.registry.basic.auth.user.info ssl.key.password
    ssl.key.pem ssl.keystore.key ssl.keystore.password ssl.truststore.password
""")

KNOWN = frozenset().union(
    BOTH, RENAMED, RENAMED.values(), ALIASES, JAVA_ONLY, LIBRDKAFKA_ONLY, MANAGED, [START], LOGIN,
    CERTIFICATES, REFUSED,
)  # fmt: skip


def canonical_name(key: str) -> str:
    """A property's name as the table has it; environment variables cannot hold its dots."""
    for prefix in EXTENSIONS:
        if key.lower().startswith(prefix) and len(key) > len(prefix):
            return EXTENSION_PREFIX + key[len(prefix) :]
    name = key.lower()
    return name if name == "log_level" else name.replace("_", ".")


def is_secret(name: str) -> bool:
    """Whether a property's value must not be shown."""
    return canonical_name(name) in SECRET
