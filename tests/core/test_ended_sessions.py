from livejoin.core.ended_sessions import Ended, all_ended, one_ended


def _ended(*records: tuple[bytes, bytes]) -> Ended:
    ended = Ended()
    for key, value in records:
        ended.take(key, value)
    return ended


def test_a_session_that_was_ended_is_over_and_no_other_one() -> None:
    ended = _ended(one_ended("a", 100))
    assert ended.over("t1", "a", 50)
    assert not ended.over("t1", "b", 50)
    assert not ended.over("t1", "", 50)


def test_all_sessions_of_an_identity_end_that_began_before() -> None:
    ended = _ended(all_ended("console", 100), all_ended("console", 60))
    assert ended.before("console") == 100
    assert ended.over("console", "a", 99)
    assert not ended.over("console", "a", 100)
    assert not ended.over("t1", "a", 99)


def test_what_would_have_ended_anyway_is_forgotten() -> None:
    ended = _ended(one_ended("a", 100), one_ended("b", 200), all_ended("console", 50))
    ended.forget(now=150)
    assert not ended.over("t1", "a", 60)
    assert ended.over("t1", "b", 60)
    assert ended.over("console", "c", 40)


def test_what_two_know_is_known_by_one() -> None:
    ended = _ended(one_ended("a", 100), all_ended("console", 50))
    ended.join(_ended(one_ended("b", 100), all_ended("console", 40), all_ended("t1", 70)))
    assert all(ended.over("t2", one, 80) for one in "ab")
    assert (ended.before("console"), ended.before("t1")) == (50, 70)


def test_a_record_that_is_not_clear_ends_for_good() -> None:
    for value in (b"", b"x", b"[]", b"{}", b'{"until": "x"}', b'{"until": []}', b"1" * 5000):
        ended = _ended((b"session/a", value))
        ended.forget(now=1e12)
        assert ended.over("t1", "a", 1e12)
    assert _ended((b"sessions-of/console", b"x")).over("console", "a", 1e12)


def test_other_records_say_nothing() -> None:
    ended = _ended((b"signer/a", b"{}"), (b"\xff", b""), (b"", b""))
    assert not ended.over("signer/a", "signer/a", 1)


def test_one_that_is_ended_here_is_over_before_anybody_reads_it() -> None:
    ended = Ended()
    ended.end("a", 100)
    assert ended.over("t1", "a", 50)
    ended.forget(now=100)
    assert not ended.over("t1", "a", 50)
