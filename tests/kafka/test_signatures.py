"""A signature is valid for one unchanged record of a known signer."""

from typing import Any

import pytest

from livejoin.kafka.signatures import _MAX_SEEN, SignatureVerifier, SignedRecord, Signer

AT_MS = 1_790_000_000_000
RECORD = SignedRecord("control", 2, 5, AT_MS, b"cli alice", b"{}")


@pytest.fixture
def signer() -> Signer:
    return Signer()


@pytest.fixture
def signers(signer: Signer) -> SignatureVerifier:
    known = SignatureVerifier()
    known.add_key(*signer.key_record())
    return known


def _sign(signer: Signer, record: SignedRecord = RECORD, at_ms: int = AT_MS) -> bytes:
    return signer.sign(record.topic, record.by, record.value, at_ms)


def test_a_signed_record_is_valid(signer: Signer, signers: SignatureVerifier) -> None:
    signature = _sign(signer)
    assert signers.knows_signer(signature)
    assert signers.verify(RECORD, signature)
    assert signers.verify(RECORD, signature)  # the same record, read again


@pytest.mark.parametrize(
    "other",
    [
        {"topic": "other"},
        {"by": b"cli bob"},
        {"value": b'{"joinType": "inner"}'},
        {"at_ms": AT_MS + 300_001},
        {"at_ms": AT_MS - 300_001},
    ],
)
def test_a_signature_is_valid_for_one_record(
    signer: Signer, signers: SignatureVerifier, other: Any
) -> None:
    assert not signers.verify(RECORD._replace(**other), _sign(signer))


def test_a_copied_record_is_refused(signer: Signer, signers: SignatureVerifier) -> None:
    signature = _sign(signer)
    assert signers.verify(RECORD, signature)
    assert not signers.verify(RECORD._replace(offset=6), signature)
    assert not signers.verify(RECORD._replace(partition=1), signature)


def test_clocks_may_differ_a_little(signer: Signer, signers: SignatureVerifier) -> None:
    assert signers.verify(RECORD, _sign(signer, at_ms=AT_MS - 299_000))


def test_an_unknown_signer_is_refused(signer: Signer, signers: SignatureVerifier) -> None:
    stranger = Signer()
    assert not signers.knows_signer(_sign(stranger))
    assert not signers.verify(RECORD, _sign(stranger))
    forged = _sign(stranger).replace(stranger.id.encode(), signer.id.encode())
    assert signers.knows_signer(forged)
    assert not signers.verify(RECORD, forged)


@pytest.mark.parametrize(
    "signature", [b"", b"1", b"2 a 1 AA==", b"1 a x AA==", b"1 a 1 !", b"\xff", b"1 a 1 AA== b"]
)
def test_a_malformed_signature_is_refused(signers: SignatureVerifier, signature: bytes) -> None:
    assert signers.knows_signer(signature)  # no key is needed
    assert not signers.verify(RECORD, signature)


@pytest.mark.parametrize("value", [b"", b"x", b"[]", b"{}", b'{"key": 5}', b'{"key": "AA=="}'])
def test_a_malformed_key_replaces_a_valid_one(
    signer: Signer, signers: SignatureVerifier, value: bytes
) -> None:
    signers.add_key(signer.key_record()[0], value)
    assert not signers.verify(RECORD, _sign(signer))
    signers.add_key(b"session/x", value)


def test_remembered_signatures_are_limited(signers: SignatureVerifier, signer: Signer) -> None:
    for offset in range(_MAX_SEEN):
        signers._seen[b"%d" % offset] = (0, offset)
    assert signers.verify(RECORD, _sign(signer))
    assert len(signers._seen) == _MAX_SEEN


def test_the_key_does_not_print(signer: Signer) -> None:
    assert "PrivateKey" not in repr(signer)
