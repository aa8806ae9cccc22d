"""The least rights that Kafka must grant, by what a cluster has: `livejoin run`, `livejoin serve`.

Reading and writing include describing.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from livejoin.core.names import Names

# own: livejoin's topics; data: the sources; control: the control topic and the replies
Role = Literal["own", "data", "control"]
Resource = Literal["topic", "group", "transactional-id"]

_EXAMPLE = 0  # any generation: its topics' names are cut to their prefix


@dataclass(frozen=True)
class Grant:
    """Operations on one resource, or on all with a prefix."""

    resource: Resource
    name: str
    operations: tuple[str, ...]
    is_prefix: bool = False


@dataclass(frozen=True)
class Inputs:
    """The topics that are not called after livejoin."""

    sources: tuple[str, ...]
    control: str


def run_grants(
    names: Names, inputs: Inputs, roles: Collection[Role], *, creates: bool
) -> Iterator[Grant]:
    """For `livejoin run`. Without `creates`, somebody else creates the topics that last."""
    create, delete = (("Create",), ("Delete",)) if creates else ((), ())
    if "data" in roles:
        yield from _sources(inputs)
    if "control" in roles:
        yield Grant("topic", inputs.control, ("Read", "Write", *create))
        if "own" not in roles:
            yield Grant("topic", names.replies, ("Write", *create))
    if "own" in roles:
        own = ("Read", "Write", "DescribeConfigs", *create, *delete)
        yield Grant("topic", _everything(names), own, is_prefix=True)
        if not creates:
            for topic in (names.changelog(_EXAMPLE), names.bootstrap(_EXAMPLE)):
                prefix = topic.removesuffix(str(_EXAMPLE))
                yield Grant("topic", prefix, ("Create", "Delete"), is_prefix=True)
    yield _groups(names)
    if "own" in roles:
        yield Grant("transactional-id", names.leader, ("Write",))


def serve_grants(names: Names, inputs: Inputs, roles: Collection[Role]) -> Iterator[Grant]:
    """For `livejoin serve`, which creates nothing and only writes to the control topic."""
    if "data" in roles:
        yield from _sources(inputs)
    if "control" in roles:
        yield Grant("topic", inputs.control, ("Write",))
    if "own" in roles:
        yield Grant("topic", _everything(names), ("Read",), is_prefix=True)
        yield Grant("topic", names.audit, ("Write",))
        yield Grant("topic", names.access, ("Write",))
    if {"own", "data"} & set(roles):
        yield _groups(names)


def _sources(inputs: Inputs) -> Iterator[Grant]:
    for topic in inputs.sources:
        yield Grant("topic", topic, ("Read",))


def _groups(names: Names) -> Grant:
    return Grant("group", _everything(names), ("Read",), is_prefix=True)


def _everything(names: Names) -> str:
    """The prefix of all names; it ends with a dot, as other names may begin with this one."""
    return names.group("")
