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


def _documented_tree() -> dict[str, list[str]]:
    """Children of each class in the docstring's tree, in order."""
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


def _children(parent: type[LivejoinError]) -> Iterator[tuple[str, list[str]]]:
    classes = parent.__subclasses__()
    yield parent.__name__, [child.__name__ for child in classes]
    for child in classes:
        yield from _children(child)


def test_the_tree_in_the_docstring_matches_the_classes() -> None:
    for module in pkgutil.walk_packages([str(SOURCE)], "livejoin."):
        importlib.import_module(module.name)  # include errors that are defined elsewhere
    assert _documented_tree() == dict(_children(LivejoinError))


CLASSES = sorted(
    _documented_tree().keys() - {"LivejoinError", "TopicError"}
)  # these two are only base classes


@pytest.mark.parametrize("name", CLASSES)
def test_every_error_is_raised_somewhere(name: str) -> None:
    texts = (file.read_text() for file in SOURCE.rglob("*.py") if file.name != "errors.py")
    assert any(re.search(rf"(?:raise|return) {name}\(", text) for text in texts)
