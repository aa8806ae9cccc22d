"""Every topic, group and transactional id that livejoin makes: one place, one prefix."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    """The names that belong to one configured `name`."""

    prefix: str

    def changelog(self, generation: int) -> str:
        """Topic that carries all tables of one generation."""
        return f"{self.prefix}.changelog.{generation}"

    @property
    def ledger(self) -> str:
        """Topic that holds the control plane's state and the status row."""
        return f"{self.prefix}.ledger"

    @property
    def logs(self) -> str:
        """Topic that holds the lines of `orchestrator_logs`."""
        return f"{self.prefix}.logs"

    def group(self, purpose: str) -> str:
        """Consumer group, or prefix of groups, for one purpose."""
        return f"{self.prefix}.{purpose}"

    def own(self, topic: str) -> bool:
        """Whether a topic is livejoin's own and so never an input."""
        return topic in (self.ledger, self.logs) or topic.startswith(f"{self.prefix}.changelog.")
