from livejoin.core.tokens import EndedSessions, identity_record, session_record


def _ended(*records: tuple[bytes, bytes]) -> EndedSessions:
    ended = EndedSessions()
    for key, value in records:
        ended.apply_record(key, value)
    return ended


def test_a_session_that_was_ended_is_over_and_no_other_one() -> None:
    ended = _ended(session_record("a", 100))
    assert ended.has_ended("t1", "a", 50)
    assert not ended.has_ended("t1", "b", 50)
    assert not ended.has_ended("t1", "", 50)


def test_all_sessions_of_an_identity_end_that_began_before() -> None:
    ended = _ended(identity_record("console", 100), identity_record("console", 60))
    assert ended.ended_before("console") == 100
    assert ended.has_ended("console", "a", 99)
    assert not ended.has_ended("console", "a", 100)
    assert not ended.has_ended("t1", "a", 99)


def test_what_would_have_ended_anyway_is_forgotten() -> None:
    ended = _ended(
        session_record("a", 100), session_record("b", 200), identity_record("console", 50)
    )
    ended.forget_expired(now=150)
    assert not ended.has_ended("t1", "a", 60)
    assert ended.has_ended("t1", "b", 60)
    assert ended.has_ended("console", "c", 40)


def test_what_two_know_is_known_by_one() -> None:
    ended = _ended(session_record("a", 100), identity_record("console", 50))
    ended.merge(
        _ended(session_record("b", 100), identity_record("console", 40), identity_record("t1", 70))
    )
    assert all(ended.has_ended("t2", one, 80) for one in "ab")
    assert (ended.ended_before("console"), ended.ended_before("t1")) == (50, 70)


def test_a_record_that_is_not_clear_ends_for_good() -> None:
    for value in (b"", b"x", b"[]", b"{}", b'{"until": "x"}', b'{"until": []}', b"1" * 5000):
        ended = _ended((b"session/a", value))
        ended.forget_expired(now=1e12)
        assert ended.has_ended("t1", "a", 1e12)
    assert _ended((b"sessions-of/console", b"x")).has_ended("console", "a", 1e12)


def test_other_records_say_nothing() -> None:
    ended = _ended((b"signer/a", b"{}"), (b"\xff", b""), (b"", b""))
    assert not ended.has_ended("signer/a", "signer/a", 1)


def test_one_that_is_ended_here_is_over_before_anybody_reads_it() -> None:
    ended = EndedSessions()
    ended.end("a", 100)
    assert ended.has_ended("t1", "a", 50)
    ended.forget_expired(now=100)
    assert not ended.has_ended("t1", "a", 50)
