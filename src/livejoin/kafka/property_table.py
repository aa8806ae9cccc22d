"""All supported properties of Kafka's clients, and how each is handled.

Two client libraries use the same block: librdkafka (control plane, tables, commands) and Java's
kafka-clients (Spark). Where their names differ, either name is accepted and each library gets its
own. Logins and certificates are translated in `login` and `certificates`.
"""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Same name, meaning and values in both libraries.
BOTH = _names("""
    bootstrap.servers check.crcs client.dns.lookup client.id client.rack compression.type
    connections.max.idle.ms delivery.timeout.ms enable.metrics.push fetch.min.bytes
    max.in.flight.requests.per.connection metadata.max.age.ms metadata.recovery.strategy
    reconnect.backoff.max.ms reconnect.backoff.ms retries retry.backoff.max.ms retry.backoff.ms
    socket.connection.setup.timeout.ms transaction.timeout.ms
""")

# Same meaning under two names: Java's, librdkafka's.
RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}

# Older names, and aliases of one library, with the name used here.
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

# Properties of one library are passed to that one only.
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

# Ignored with a warning: livejoin's consumers and producers depend on their own values, or (the
# last line) the properties belong to other libraries that are configured in the same block.
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

# The start position; resolved to offsets before any client reads.
START = "auto.offset.reset"

# Translated by `login` and `certificates`, differently for each library.
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

# Prefixes of OAUTHBEARER extensions, one property each; the rest of the name keeps its case.
EXTENSION_PREFIX = "sasl.oauthbearer.extensions."
EXTENSIONS = (EXTENSION_PREFIX, "extensions.", "extension_")

_ONE_LIBRARY = "only one of livejoin's two client libraries supports it"
# Refused, with the reason; a name that ends with a dot is a prefix.
REFUSED = {
    "enable.sasl.oauthbearer.unsecure.jwt": "unsigned tokens are not secure",
    "sasl.client.callback.handler.class": _ONE_LIBRARY,
    "sasl.kerberos.": "Kerberos is not supported",
    "sasl.login.class": _ONE_LIBRARY,
    "sasl.oauthbearer.assertion.": "client credentials are the only supported OAuth grant",
    "sasl.oauthbearer.config": "unsigned tokens are not secure",
    "sasl.oauthbearer.metadata.authentication.type": _ONE_LIBRARY,
    "security.providers": _ONE_LIBRARY,
    "ssl.ca.certificate.stores": "it is for Windows; name the CA in ssl.ca.location",
    "ssl.cipher.suites": "the two client libraries name ciphers differently; configure them at"
    " the broker",
    "ssl.engine.": _ONE_LIBRARY,
    "ssl.keymanager.algorithm": _ONE_LIBRARY,
    "ssl.provider": _ONE_LIBRARY,
    "ssl.providers": _ONE_LIBRARY,
    "ssl.secure.random.implementation": _ONE_LIBRARY,
    "ssl.trustmanager.algorithm": _ONE_LIBRARY,
}

KNOWN = frozenset().union(
    BOTH, RENAMED, RENAMED.values(), ALIASES, JAVA_ONLY, LIBRDKAFKA_ONLY, MANAGED, [START], LOGIN,
    CERTIFICATES, REFUSED,
)  # fmt: skip
