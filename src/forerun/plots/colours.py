"""The colours of all figures; on the page they are CSS variables, which dark mode changes."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Colours:
    """One colour a purpose. Accent and second stay apart for colour-blind eyes (blue, orange)."""

    ink: str = "#1d2433"  # text
    quiet: str = "#5d6778"  # ticks, captions
    line: str = "#dfe3ea"  # grid lines, rules
    accent: str = "#2b5fc7"  # the prediction
    soft: str = "rgba(43, 95, 199, 0.15)"  # its interval
    second: str = "#c9651b"  # what differs: the formula alone, runs outside their interval
    second_soft: str = "rgba(201, 101, 27, 0.25)"
    dot: str = "rgba(29, 36, 51, 0.42)"  # measured runs
    beyond: str = "rgba(93, 103, 120, 0.09)"  # where nothing was measured


LIGHT = Colours()
PAGE = Colours(
    **{field.name: f"var(--{field.name.replace('_', '-')})" for field in fields(Colours)}
)
