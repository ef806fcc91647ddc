"""A console that no name or value from outside can command."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.segment import Segment

from forerun.errors import one_line

if TYPE_CHECKING:
    from rich.console import ConsoleOptions


class SafeConsole(Console):
    """Writes what does not print as an escape, line ends aside; styles are Rich's own."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of what is printed, of which Rich itself makes the control sequences."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else _safe(text), style, control)


def _safe(text: str) -> str:
    return "\n".join(one_line(line) for line in text.split("\n"))
