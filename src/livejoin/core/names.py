"""Every topic, group and transactional id that livejoin makes: one place, one prefix."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    """The names that belong to one configured `name`."""

    prefix: str

    def changelog(self, generation: int) -> str:
        """Topic that carries all tables of one generation."""
        return f"{self._changelogs}{generation}"

    def bootstrap(self, generation: int) -> str:
        """Topic by which one generation's state learns of its history."""
        return f"{self._bootstraps}{generation}"

    def generation_of(self, topic: str) -> int | None:
        """The generation whose changelog or feed a topic is."""
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
        """Topic that holds the control plane's state, the status row and the generations."""
        return f"{self.prefix}.ledger"

    @property
    def logs(self) -> str:
        """Topic that holds the lines of `orchestrator_logs` and the rows of `control_raw`."""
        return f"{self.prefix}.logs"

    @property
    def replies(self) -> str:
        """Topic that holds the outcome of every control message, keyed by its id."""
        return f"{self.prefix}.replies"

    @property
    def leader(self) -> str:
        """Topic of which the leader holds the only partition and says so; its transactional id."""
        return f"{self.prefix}.leader"

    @property
    def tokens(self) -> str:
        """Topic that holds the hashes of the tokens, keyed by their ids."""
        return f"{self.prefix}.tokens"

    @property
    def audit(self) -> str:
        """Topic that holds the rows of `audit`: who did what, or tried to."""
        return f"{self.prefix}.audit"

    @property
    def access(self) -> str:
        """Topic that holds sessions that were ended, and the public keys of those who sign."""
        return f"{self.prefix}.access"

    def group(self, purpose: str) -> str:
        """Consumer group, or prefix of groups, for one purpose."""
        return f"{self.prefix}.{purpose}"

    def is_own(self, topic: str) -> bool:
        """Whether a topic is livejoin's own and so never an input."""
        control = (self.ledger, self.logs, self.replies, self.leader)
        mine = (*control, self.tokens, self.audit, self.access)
        return topic in mine or topic.startswith((self._changelogs, self._bootstraps))
