"""The section `sources`: what is joined, as people write it, checked as a whole.

Every problem is reported, with the setting that it is about.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from livejoin.core import spec
from livejoin.core.control_messages import is_topic_name
from livejoin.core.names import nearest
from livejoin.core.spec import Column, Join, JoinSpec, Source

MIN_SOURCES, MAX_SOURCES = 2, 8
MAX_FIELDS = 100
_KEY_TYPES = ("string", "int64")
_SOURCE_KEYS = ("topic", "key", "fields")
_FIELD_KEYS = ("type", "path")

# Their tables, columns or flags would be taken for livejoin's own.
_RESERVED = ("final", "rejects", "control", "feed", "tombstones", "audit", "generations", "status")
_SOURCE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_FIELD_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_PATH = re.compile(r"\$((\.[A-Za-z_][A-Za-z0-9_]{0,63})|(\[[0-9]{1,3}\])){1,8}")
_PATH_PART = re.compile(r"\.?([A-Za-z_][A-Za-z0-9_]*|\[[0-9]+\])")
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)")
_TYPES_EXPECTED = f"{', '.join(spec.SCALAR_TYPES)} or decimal(precision,scale)"


class Problem(NamedTuple):
    """Something wrong with a setting."""

    setting: tuple[str, ...]  # from the section down
    text: str

    def __str__(self) -> str:
        return f"{'.'.join(self.setting)}: {self.text}"


class InvalidSources(ValueError):
    """The section cannot be used; it has all problems."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


class DeclaredSources(NamedTuple):
    """What the section says: the spec, and the topic of each source for a first start."""

    spec: JoinSpec
    topics: Mapping[str, str]


def parse_sources(section: Any, join: Join) -> DeclaredSources:
    """Parse the section, or raise InvalidSources with everything that is wrong."""
    if not isinstance(section, dict) or not MIN_SOURCES <= len(section) <= MAX_SOURCES:
        text = f"expected {MIN_SOURCES} to {MAX_SOURCES} sources, each by its name"
        raise InvalidSources([Problem(("sources",), text)])
    parser = _SourcesParser()
    for name, block in section.items():
        parser.add(str(name), block)
    parser.check(join)
    if parser.problems:
        raise InvalidSources(parser.problems)
    return DeclaredSources(JoinSpec(tuple(parser.sources)), parser.topics)


class _SourcesParser:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.sources: list[Source] = []
        self.topics: dict[str, str] = {}

    def _report(self, text: str, *setting: str) -> None:
        self.problems.append(Problem(("sources", *setting), text))

    def add(self, name: str, block: Any) -> None:
        """Parse one source."""
        self._check_name(name)
        if not isinstance(block, dict):
            self._report("expected topic, key and fields", name)
            return
        for key in block:
            if key not in _SOURCE_KEYS:
                self._report(_unknown("setting", str(key), _SOURCE_KEYS), name, str(key))
        topic = block.get("topic", name)
        if not isinstance(topic, str) or not is_topic_name(topic):
            self._report(f"{topic!r} is not a topic name", name, "topic")
        self.topics[name] = str(topic)
        fields = _with_whole_decimals(block.get("fields"))
        if not isinstance(fields, dict) or not 1 <= len(fields) <= MAX_FIELDS:
            text = f"expected 1 to {MAX_FIELDS} fields, each with its type"
            self._report(text, name, "fields")
            return
        columns = tuple(self._column(name, str(field), fields[field]) for field in fields)
        key = block.get("key")
        if not isinstance(key, str) or key not in fields:
            text = "missing" if key is None else _unknown("field", str(key), map(str, fields))
            self._report(f"{text}: it names the field that is joined on", name, "key")
            return
        self._check_fields(name, columns)
        self.sources.append(Source(name, columns, key))

    def _check_name(self, name: str) -> None:
        if not _SOURCE_NAME.fullmatch(name):
            text = "a source's name has 1 to 40 letters, digits or _, and starts with a letter"
            self._report(text, name)
        elif name.lower() in _RESERVED:
            self._report("this name is livejoin's own; choose another one", name)
        if any(name.lower() == other.lower() for other in self.topics):
            self._report("differs from another source by case only", name)

    def _column(self, source: str, name: str, given: Any) -> Column:
        setting = (source, "fields", name)
        if not _FIELD_NAME.fullmatch(name):
            text = (
                "a field's name has 1 to 64 letters, digits or _, and starts with a letter;"
                " name it differently, with a path to its value"
            )
            self._report(text, *setting)
        block = {"type": given} if isinstance(given, str) else given
        if not isinstance(block, dict):
            self._report(f"expected a type: {_TYPES_EXPECTED}", *setting)
            return Column(name, "string")
        for key in block:
            if key not in _FIELD_KEYS:
                self._report(_unknown("setting", str(key), _FIELD_KEYS), *setting, str(key))
        path = block.get("path", "")
        if path and not (isinstance(path, str) and _PATH.fullmatch(path)):
            text = f"{path!r} is not a path such as $.address.city or $.items[0]"
            self._report(text, *setting, "path")
            path = ""
        return Column(name, self._type(setting, block.get("type")), _normal_path(name, path))

    def _type(self, setting: tuple[str, ...], given: Any) -> spec.Type:
        if given in spec.SCALAR_TYPES:
            return str(given)
        if isinstance(given, str) and (found := _DECIMAL.fullmatch(given)):
            precision, scale = int(found[1]), int(found[2])
            if 1 <= precision <= spec.MAX_PRECISION and scale <= precision:
                return f"decimal({precision},{scale})"
            text = f"a decimal has 1 to {spec.MAX_PRECISION} digits, and not more behind the point"
            self._report(f"{given}: {text}", *setting)
            return "string"
        close = nearest(str(given), (*spec.SCALAR_TYPES, "decimal(12,2)"))
        hint = f"did you mean {close}?" if close else f"expected {_TYPES_EXPECTED}"
        self._report(f"unknown type {given!r}: {hint}", *setting)
        return "string"

    def _check_fields(self, source: str, columns: tuple[Column, ...]) -> None:
        """Check fields of one source against each other."""
        names: dict[str, str] = {}
        paths: dict[tuple[str, ...], str] = {}
        for column in columns:
            other = names.setdefault(column.name.lower(), column.name)
            if other != column.name:
                text = f"differs from {other} by case only"
                self._report(text, source, "fields", column.name)
                continue
            parts = tuple(part.lower() for part in path_parts(column))
            for known, name in paths.items():
                shorter = min(len(parts), len(known))
                if parts[:shorter] == known[:shorter]:
                    text = f"its path is that of {name}, leads into its value, or ends before it"
                    self._report(text, source, "fields", column.name)
            paths.setdefault(parts, column.name)

    def check(self, join: Join) -> None:
        """Check sources against each other, and the join."""
        for name, topic in self.topics.items():
            first = next(other for other, one in self.topics.items() if one == topic)
            if first != name:
                self._report(f"{topic} is read by {first} already", name, "topic")
        self.problems.extend(_key_problems(self.sources))
        if join != "left" and len(self.topics) != MIN_SOURCES:
            text = f"{join} takes exactly two sources, and there are {len(self.topics)}"
            self.problems.append(Problem(("join",), text))
        if not self.problems:
            try:
                _ = JoinSpec(tuple(self.sources)).joined_names
            except ValueError as error:
                setting, _, text = str(error).partition(": ")
                self.problems.append(Problem(tuple(setting.split(".")), text))


def _key_problems(sources: list[Source]) -> Iterator[Problem]:
    for source in sources:
        kind, expected = source.key_column.type, sources[0].key_column.type
        setting = ("sources", source.name, "key")
        if kind not in _KEY_TYPES:
            expected = " or ".join(_KEY_TYPES)
            yield Problem(setting, f"{source.key} is of type {kind}; a key is of type {expected}")
        elif kind != expected:
            text = (
                f"{source.key} is of type {kind}, but the key of {sources[0].name} is of type"
                f" {expected}"
            )
            yield Problem(setting, text)


def _with_whole_decimals(fields: Any) -> Any:
    """In `{paid: decimal(12,2)}` YAML takes the comma for the end of an entry: undo that."""
    if not isinstance(fields, dict):
        return fields
    whole: dict[str, Any] = {}
    for name, given in fields.items():
        last = next(reversed(whole), "")
        if given is None and _is_rest_of_decimal(whole.get(last), str(name)):
            whole[last] = f"{whole[last]},{name}"
        else:
            whole[str(name)] = given
    return whole


def _is_rest_of_decimal(start: Any, rest: str) -> bool:
    return isinstance(start, str) and bool(_DECIMAL.fullmatch(f"{start},{rest}"))


def path_parts(column: Column) -> list[str]:
    """The members and indexes that lead to a field's value."""
    if not column.path:
        return [column.name]
    return _PATH_PART.findall(column.path[1:].replace("[", ".["))


def _normal_path(name: str, path: str) -> str:
    """The path, or empty if it is the one that a field without a path has."""
    return "" if path == f"$.{name}" else path


def _unknown(what: str, word: str, known: Any) -> str:
    names = list(known)
    close = nearest(word, names)
    hint = f"did you mean {close}?" if close else f"known are {', '.join(names)}"
    return f"unknown {what} {word!r}, {hint}"
