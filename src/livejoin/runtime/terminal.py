"""Escapes text for a terminal, so that data cannot move the cursor or trigger its functions."""


def escape_unprintable(text: str, keep: str = "") -> str:
    """Escape unprintable characters: control and direction characters, lone surrogates.

    Characters in `keep` are not escaped.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
        for char in text
    )
