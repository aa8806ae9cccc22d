"""Names of all topics, consumer groups and transactional ids, and suggestions for misspelled ones.

`nearest` suggests for names of any kind: settings, columns, topics, joins.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    """The names under one configured `name`, which is their prefix."""

    prefix: str

    def changelog(self, generation: int) -> str:
        """Topic with all tables of one generation."""
        return f"{self._changelogs}{generation}"

    def bootstrap(self, generation: int) -> str:
        """Topic that loads the history into the state of one generation's query."""
        return f"{self._bootstraps}{generation}"

    def generation_of(self, topic: str) -> int | None:
        """The generation that a changelog or bootstrap topic belongs to."""
        kinds = (self._changelogs, self._bootstraps)
        number = next((topic.removeprefix(kind) for kind in kinds if topic.startswith(kind)), "")
        return int(number) if number.isdecimal() else None

    @property
    def _changelogs(self) -> str:
        return f"{self.prefix}.changelog."

    @property
    def _bootstraps(self) -> str:
        return f"{self.prefix}.feed."

    @property
    def ledger(self) -> str:
        """Topic with the state of the control plane, the status row and the generations."""
        return f"{self.prefix}.ledger"

    @property
    def logs(self) -> str:
        """Topic with the rows of `orchestrator_logs` and `control_raw`."""
        return f"{self.prefix}.logs"

    @property
    def replies(self) -> str:
        """Topic with the outcome of every control message, keyed by message id."""
        return f"{self.prefix}.replies"

    @property
    def leader(self) -> str:
        """Topic of the election and of the leader's heartbeats; also its transactional id."""
        return f"{self.prefix}.leader"

    @property
    def tokens(self) -> str:
        """Topic with the hashes of the tokens, keyed by token id."""
        return f"{self.prefix}.tokens"

    @property
    def audit(self) -> str:
        """Topic with the rows of `audit`: who did or tried what."""
        return f"{self.prefix}.audit"

    @property
    def access(self) -> str:
        """Topic with ended sessions, and the public keys of processes that sign."""
        return f"{self.prefix}.access"

    def group(self, purpose: str) -> str:
        """Consumer group, or prefix of groups, for one purpose."""
        return f"{self.prefix}.{purpose}"

    def is_own(self, topic: str) -> bool:
        """Whether a topic belongs to livejoin and so is never an input."""
        control = (self.ledger, self.logs, self.replies, self.leader)
        own = (*control, self.tokens, self.audit, self.access)
        return topic in own or topic.startswith((self._changelogs, self._bootstraps))


def nearest(word: str, known: Iterable[str]) -> str:
    """The most similar known word, ignoring case; empty if none is similar."""
    by_lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[found[0]] if found else ""
