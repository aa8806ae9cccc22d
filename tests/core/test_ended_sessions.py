from livejoin.core.tokens import EndedSessions, identity_record, session_record


def _ended(*records: tuple[bytes, bytes]) -> EndedSessions:
    ended = EndedSessions()
    for key, value in records:
        ended.apply_record(key, value)
    return ended


def test_ending_a_session_ends_no_other() -> None:
    ended = _ended(session_record("a", 100))
    assert ended.has_ended("t1", "a", 50)
    assert not ended.has_ended("t1", "b", 50)
    assert not ended.has_ended("t1", "", 50)


def test_ending_an_identity_ends_its_earlier_sessions() -> None:
    ended = _ended(identity_record("console", 100), identity_record("console", 60))
    assert ended.ended_before("console") == 100
    assert ended.has_ended("console", "a", 99)
    assert not ended.has_ended("console", "a", 100)
    assert not ended.has_ended("t1", "a", 99)


def test_expired_records_are_forgotten() -> None:
    ended = _ended(
        session_record("a", 100), session_record("b", 200), identity_record("console", 50)
    )
    ended.forget_expired(now=150)
    assert not ended.has_ended("t1", "a", 60)
    assert ended.has_ended("t1", "b", 60)
    assert ended.has_ended("console", "c", 40)


def test_records_are_merged() -> None:
    ended = _ended(session_record("a", 100), identity_record("console", 50))
    ended.merge(
        _ended(session_record("b", 100), identity_record("console", 40), identity_record("t1", 70))
    )
    assert all(ended.has_ended("t2", session, 80) for session in "ab")
    assert (ended.ended_before("console"), ended.ended_before("t1")) == (50, 70)


def test_a_malformed_record_ends_the_session_permanently() -> None:
    for value in (b"", b"x", b"[]", b"{}", b'{"until": "x"}', b'{"until": []}', b"1" * 5000):
        ended = _ended((b"session/a", value))
        ended.forget_expired(now=1e12)
        assert ended.has_ended("t1", "a", 1e12)
    assert _ended((b"sessions-of/console", b"x")).has_ended("console", "a", 1e12)


def test_other_records_are_ignored() -> None:
    ended = _ended((b"signer/a", b"{}"), (b"\xff", b""), (b"", b""))
    assert not ended.has_ended("signer/a", "signer/a", 1)


def test_a_locally_ended_session_has_ended_at_once() -> None:
    ended = EndedSessions()
    ended.end("a", 100)
    assert ended.has_ended("t1", "a", 50)
    ended.forget_expired(now=100)
    assert not ended.has_ended("t1", "a", 50)
