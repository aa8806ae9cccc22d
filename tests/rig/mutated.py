"""Invalid control messages on a real broker: each is in `control_raw` with its reason."""

import json
import random
import re
from collections import Counter
from collections.abc import Iterator

from core.mutations import mutated
from livejoin.core import control_messages
from livejoin.core.names import Names
from rig.running import until
from rig.world import World

BATCH = 2000  # `control_raw` keeps 10,000
_OWN = re.compile(r"(\S+) is (?:the control topic|one of livejoin's own)")


def invalid_messages(
    seed: int, rules: control_messages.MessageRules
) -> Iterator[tuple[bytes, str]]:
    """Yield invalid messages, each with the core's reason; empty if only its topics are missing."""
    dice, ids = random.Random(seed), set[str]()
    own = f"{rules.names.prefix}.".encode()
    while True:
        # messages that name own topics must name those of the running livejoin
        raw = mutated(dice).replace(b"livejoin.", own)
        raw = raw.replace(b'"control"', json.dumps(rules.control).encode())
        try:
            request = control_messages.parse_message(raw, rules)
        except control_messages.InvalidMessage as error:
            yield raw, str(error)
            continue
        # Nothing must be built: of the valid messages only those with missing topics are sent,
        # and each id only once, since a repeated id is another case.
        if request.topics and request.id not in ids:
            ids |= {request.id} if request.id else set()
            yield raw, ""


def expect_rejected(world: World, count: int, seed: int) -> Counter[str]:
    """Send `count` messages; each is rejected with a reason, and no generation is built.

    Returns how often each of livejoin's own topics was the reason.
    """
    topics_named = Counter[str]()
    before = max(row["generation"] for row in world.generations())
    messages = invalid_messages(
        seed, control_messages.MessageRules(Names(world.name), f"{world.name}.control")
    )
    for start in range(0, count, BATCH):
        sent = [next(messages) for _ in range(min(BATCH, count - start))]
        rows = _control_rows(world, [raw for raw, _ in sent])
        for (raw, reason), row in zip(sent, rows, strict=True):
            assert row["outcome"] == "rejected", (seed, raw, row)
            assert row["reason"], (seed, raw, row)
            assert not reason or row["reason"] == reason, (seed, raw, row, reason)
            topics_named.update(_OWN.findall(row["reason"]))
    assert max(row["generation"] for row in world.generations()) == before, "something was built"
    return topics_named


def _control_rows(world: World, raws: list[bytes]) -> list[dict[str, str]]:
    """Return the rows of `control_raw` for these messages, in order."""
    offsets: list[int] = []
    for raw in raws:
        world.control.produce(
            f"{world.name}.control", raw, on_delivery=lambda _, sent: offsets.append(sent.offset())
        )
    assert world.control.flush(60) == 0
    until(lambda: world.outcome(offsets[-1]), "all are answered", 600)
    rows = {row["offset"]: row for row in world.live.table("control_raw").values()}
    return [rows[offset] for offset in offsets]
