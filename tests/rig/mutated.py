"""Broken control messages over the real broker: each ends in `control_raw` with its reason."""

import random
from collections.abc import Iterator

from core.test_mutations import mutated
from livejoin.core import messages
from livejoin.core.names import Names
from livejoin.core.told import row_id
from rig.running import until
from rig.world import World

PORTION = 2000  # `control_raw` keeps 10,000


def _broken(seed: int, rules: messages.Rules) -> Iterator[tuple[bytes, str]]:
    """Messages that cannot be obeyed, and the core's reason; none, where topics are not there."""
    dice, ids = random.Random(seed), set[str]()
    while True:
        raw = mutated(dice)
        try:
            asked = messages.read(raw, rules)
        except messages.Invalid as error:
            yield raw, str(error)
            continue
        # nothing is to be built: so of these only those that name topics, which are not there;
        # and an id that comes again is another case
        if asked.topics and asked.id not in ids:
            ids |= {asked.id} if asked.id else set()
            yield raw, ""


def expect_rejected(one: World, count: int, seed: int) -> None:
    """Send so many; each is rejected with a reason, and no generation is built."""
    before = max(row["generation"] for row in one.generations())
    made = _broken(seed, messages.Rules(Names(one.name), f"{one.name}.control"))
    for start in range(0, count, PORTION):
        sent = [next(made) for _ in range(min(PORTION, count - start))]
        rows = _answers(one, [raw for raw, _ in sent])
        for (raw, reason), row in zip(sent, rows, strict=True):
            assert row["outcome"] == "rejected", (seed, raw, row)
            assert row["reason"], (seed, raw, row)
            assert not reason or row["reason"] == reason, (seed, raw, row, reason)
    assert max(row["generation"] for row in one.generations()) == before, "something was built"


def _answers(one: World, raws: list[bytes]) -> list[dict[str, str]]:
    """What `control_raw` says of each, in their order."""
    offsets: list[int] = []
    for raw in raws:
        one.control.produce(
            f"{one.name}.control", raw, on_delivery=lambda _, sent: offsets.append(sent.offset())
        )
    assert one.control.flush(60) == 0
    last = row_id(offsets[-1])
    until(lambda: last in one.live.table("control_raw"), "all are answered", 600)
    rows = one.live.table("control_raw")
    return [rows[row_id(offset)] for offset in offsets]
