"""What is raised here; forerun.errors is not there on a board."""


class DeviceError(Exception):
    """Something that was given, or that another device did, is wrong. The message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class LinkError(DeviceError):
    """A device, or the host, that does not answer or is not the right one: `peer` is its number."""

    def __init__(self, peer: int, message: str) -> None:
        super().__init__(message)
        self.peer = peer


class SilenceError(LinkError):
    """A device, or the host, that has not answered for so long that it is given up."""


def one_line(text: str) -> str:
    """The text with every character that does not print written as an escape, newlines included."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )
