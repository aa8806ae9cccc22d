"""A minimal PromQL reader: which metrics, labels and functions an expression uses."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<text>"[^"]*")|(?P<range>\[[^\]]*\])|(?P<name>\$?[A-Za-z_:][\w:]*)"""
    r"""|(?P<number>\d+(?:\.\d+)?)|(?P<op>=~|!~|!=|==|>=|<=|[-+*/<>=(){},])|(?P<blank>\s+)"""
)
FUNCTIONS = {
    "absent", "changes", "deriv", "histogram_quantile", "increase", "max", "min", "rate", "sum",
}  # fmt: skip
_GROUPING = {"by", "on"}
_SETS = {"and", "or", "unless"}
SCRAPE_LABELS = {"job", "instance"}  # added by Prometheus to every sample

Exported = Mapping[str, list[Mapping[str, str]]]  # by metric name, the labels of each sample


@dataclass
class UsedNames:
    """The metrics and labels that an expression uses."""

    metrics: set[str] = field(default_factory=set)
    matchers: list[tuple[str, str, str, str]] = field(default_factory=list)
    grouped: set[str] = field(default_factory=set)


def parse_names(expression: str) -> UsedNames:
    """Parse an expression; fails on unsupported PromQL."""
    found, tokens = UsedNames(), list(_tokens(expression))
    at = 0
    while at < len(tokens):
        kind, text = tokens[at]
        following = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        if kind != "name" or text in _SETS:
            at += 1
        elif text in _GROUPING:
            names, at = _until(tokens, at + 2, ")")
            found.grouped |= {name for name in names if name != ","}
        elif following == "(" or following in _GROUPING:
            assert text in FUNCTIONS, f"unknown function {text} in {expression}"
            at += 1
        else:
            found.metrics.add(text)
            at += 1
            if following == "{":
                inside, at = _until(tokens, at + 1, "}")
                parts = [inside[start : start + 3] for start in range(0, len(inside), 4)]
                found.matchers += [(text, label, op, v.strip('"')) for label, op, v in parts]
    return found


def _until(tokens: list[tuple[str, str]], at: int, end: str) -> tuple[list[str], int]:
    texts = [text for _, text in tokens[at:]]
    length = texts.index(end)
    return texts[:length], at + length + 1


def _tokens(expression: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        assert match is not None, f"cannot read {expression[at:]!r}"
        at = match.end()
        if match.lastgroup != "blank":
            yield str(match.lastgroup), match.group()


def find_faults(expression: str, exported: Exported, legend: str = "") -> list[str]:
    """Return metrics and labels that an expression or its legend names but no server exports."""
    names = parse_names(expression)
    faults = [f"no metric {name}" for name in sorted(names.metrics - exported.keys())]
    labels = {
        key
        for name in names.metrics
        for sample_labels in exported.get(name, ())
        for key in sample_labels
    } | SCRAPE_LABELS
    for name, label, op, value in names.matchers:
        values = {sample_labels.get(label) for sample_labels in exported.get(name, ())}
        if label not in SCRAPE_LABELS and (values <= {None} or (op == "=" and value not in values)):
            faults.append(f"{name} has no {label}{op}{value}")
    named = names.grouped | set(re.findall(r"{{\s*(?:\$labels\.)?(\w+)\s*}}", legend))
    return faults + [f"no label {label}" for label in sorted(named - labels)]
