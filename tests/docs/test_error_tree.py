"""The tree in errors.py is the tree of its classes, and each class is raised somewhere."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import livejoin
from livejoin import errors
from livejoin.errors import LivejoinError

SOURCE = Path(livejoin.__file__).parent
_LINE = re.compile(r"^((?:│   |    )*)(?:├── |└── )(\w+) {2,}(\S.*)$")


def _drawn() -> dict[str, list[str]]:
    """The children of each class in the docstring's tree, in their order."""
    assert errors.__doc__ is not None
    path = ["LivejoinError"]
    children: dict[str, list[str]] = {"LivejoinError": []}
    for line in errors.__doc__.splitlines():
        if found := _LINE.match(line):
            depth = len(found[1]) // 4 + 1
            path = [*path[:depth], found[2]]
            children[path[-2]].append(found[2])
            children[found[2]] = []
    return children


def _children(of: type[LivejoinError]) -> Iterator[tuple[str, list[str]]]:
    classes = of.__subclasses__()
    yield of.__name__, [one.__name__ for one in classes]
    for one in classes:
        yield from _children(one)


def test_the_tree_in_the_docstring_is_that_of_the_classes() -> None:
    for module in pkgutil.walk_packages([str(SOURCE)], "livejoin."):
        importlib.import_module(module.name)  # errors that are defined elsewhere count as well
    assert _drawn() == dict(_children(LivejoinError))


CLASSES = sorted(_drawn().keys() - {"LivejoinError", "TopicError"})  # these two are bases only


@pytest.mark.parametrize("name", CLASSES)
def test_every_error_is_raised_somewhere(name: str) -> None:
    texts = (file.read_text() for file in SOURCE.rglob("*.py") if file.name != "errors.py")
    assert any(re.search(rf"(?:raise|return) {name}\(", text) for text in texts)
