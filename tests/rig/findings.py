"""What a test asks of the findings of `livejoin doctor`."""

from collections.abc import Iterable

from livejoin.doctor.findings import Finding


def of(findings: Iterable[Finding], check: str, cluster: str = "") -> list[Finding]:
    """The findings of one check, of one cluster if its section is given."""
    return [one for one in findings if one.check == check and one.cluster.startswith(cluster)]


def only(findings: Iterable[Finding], check: str, cluster: str = "") -> Finding:
    """The only finding of a check."""
    found = of(findings, check, cluster)
    assert len(found) == 1, found
    return found[0]


def severities(findings: Iterable[Finding], cluster: str = "") -> list[tuple[str, str]]:
    """Checks with their severities, in order."""
    return [(one.check, one.severity) for one in findings if one.cluster.startswith(cluster)]


def problems(findings: Iterable[Finding]) -> list[Finding]:
    """Everything that is a warning or BAD."""
    return [one for one in findings if one.severity in ("warning", "BAD")]
