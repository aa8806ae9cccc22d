"""An authenticated caller, and the error for those who are not."""

from dataclasses import dataclass

from livejoin.core import tokens
from livejoin.core.tokens import Role


@dataclass(frozen=True)
class Identity:
    """An authenticated caller. Times are seconds since 1970."""

    id: str
    role: Role
    label: str = ""
    expires_at: float | None = None
    session: str = ""  # id of the session, if any; renewals keep it
    signed_in_at: float | None = None  # start of that session

    @property
    def display_name(self) -> str:
        """Return the label, or the id where there is none."""
        return self.label or self.id


ANONYMOUS = Identity("anybody", "operator")  # every caller of a server without authentication
CONSOLE = Identity(tokens.CONSOLE, "operator")  # signed in by the printed URL


class Unauthenticated(Exception):
    """The caller's credentials are invalid; `retriable` if they cannot be checked yet."""

    def __init__(self, why: str, *, retriable: bool = False) -> None:
        super().__init__(why)
        self.retriable = retriable
