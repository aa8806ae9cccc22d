"""Messages are split by size."""

from confluent_kafka import Message

from livejoin.kafka.records import split_by_size

MIB = 1 << 20


def _sizes(*mib: float) -> list[list[float]]:
    messages = [Message(offset=at, value=bytes(int(size * MIB))) for at, size in enumerate(mib)]
    found = list(split_by_size(messages))
    assert [one.offset() for some in found for one in some] == list(range(len(mib)))
    return [[len(one) / MIB for one in some] for some in found]


def test_small_messages_stay_together() -> None:
    assert _sizes(1, 1, 1) == [[1, 1, 1]]
    assert _sizes() == []


def test_a_part_ends_once_it_is_large() -> None:
    assert _sizes(3, 2, 1, 8, 0.5) == [[3, 2], [1, 8], [0.5]]


def test_a_message_without_a_value_has_no_size() -> None:
    (portion,) = split_by_size([Message(offset=0), Message(offset=1, value=b"x")])
    assert len(portion) == 2
