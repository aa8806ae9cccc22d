"""Broken control messages over the real broker: each ends in `control_raw` with its reason."""

import json
import random
import re
from collections import Counter
from collections.abc import Iterator

from core.mutations import mutated
from livejoin.core import control_messages
from livejoin.core.names import Names
from livejoin.core.state import row_id
from rig.running import until
from rig.world import World

PORTION = 2000  # `control_raw` keeps 10,000
_OWN = re.compile(r"(\S+) is (?:the control topic|one of livejoin's own)")


def broken(seed: int, rules: control_messages.TopicRules) -> Iterator[tuple[bytes, str]]:
    """Messages that cannot be obeyed, and the core's reason; none, where topics are not there."""
    dice, ids = random.Random(seed), set[str]()
    own = f"{rules.names.prefix}.".encode()
    while True:
        # those that name topics of a livejoin are to name those of the one that runs
        raw = mutated(dice).replace(b"livejoin.", own)
        raw = raw.replace(b'"control"', json.dumps(rules.control).encode())
        try:
            asked = control_messages.parse_message(raw, rules)
        except control_messages.InvalidMessage as error:
            yield raw, str(error)
            continue
        # nothing is to be built: so of these only those that name topics, which are not there;
        # and an id that comes again is another case
        if asked.topics and asked.id not in ids:
            ids |= {asked.id} if asked.id else set()
            yield raw, ""


def expect_rejected(one: World, count: int, seed: int) -> Counter[str]:
    """Send so many; each is rejected with a reason, and no generation is built.

    How many were rejected for a topic of this livejoin's own, by topic.
    """
    named = Counter[str]()
    before = max(row["generation"] for row in one.generations())
    made = broken(seed, control_messages.TopicRules(Names(one.name), f"{one.name}.control"))
    for start in range(0, count, PORTION):
        sent = [next(made) for _ in range(min(PORTION, count - start))]
        rows = _answers(one, [raw for raw, _ in sent])
        for (raw, reason), row in zip(sent, rows, strict=True):
            assert row["outcome"] == "rejected", (seed, raw, row)
            assert row["reason"], (seed, raw, row)
            assert not reason or row["reason"] == reason, (seed, raw, row, reason)
            named.update(_OWN.findall(row["reason"]))
    assert max(row["generation"] for row in one.generations()) == before, "something was built"
    return named


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
