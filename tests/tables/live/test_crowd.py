"""Many viewers of large tables take bounded memory."""

from tables.many_viewers import expect_bounded


def test_240_different_subscriptions_take_bounded_memory() -> None:
    expect_bounded(20_000, 120 << 20)  # a tenth of the rows, copied per viewer, would be 800 MB
