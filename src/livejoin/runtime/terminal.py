"""Text for a terminal: data in it must not move the cursor, hide, turn round or answer anything."""


def escape_unprintable(text: str, keep: str = "") -> str:
    """Show as escapes what does not print: control characters, marks of direction, half a pair.

    What is printable, and what is to be kept, stays as it is.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in keep else one.encode("unicode_escape").decode()
        for one in text
    )
