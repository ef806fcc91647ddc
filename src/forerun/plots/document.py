"""One figure as an HTML page that needs no network, or as a file for a paper."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from forerun import _outputs
from forerun.errors import InputError

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from forerun.plots.front import Front

PAGES = (".html", ".htm")
PAPERS = (".png", ".svg", ".pdf")


def check(path: Path, study: Path, *kept: Path | None) -> None:
    """InputError unless a figure can be written here: its format is what the name ends in.

    Neither the study nor what else is `kept` is overwritten.
    """
    suffix = path.suffix.lower()
    if suffix not in (*PAGES, *PAPERS):
        raise InputError("--plot", path, f"a name that ends in {', '.join((*PAGES[:1], *PAPERS))}")
    if not path.parent.is_dir():
        raise InputError(str(path), "no such directory", "a directory to write the figure to")
    if suffix in PAGES:
        _outputs.check_page(path, study)
    else:
        _outputs.check_figure(path, study, *kept)


def write_front(found: Front, title: str, path: Path) -> None:
    """The figure of a plan, in the format that the file's name ends in."""
    if path.suffix.lower() in PAGES:
        from forerun.plots.colours import PAGE
        from forerun.plots.page import front_figure

        caption = "Each dot is a candidate; bars are 90 % intervals of its time. On the line are "
        caption += "those that nothing beats in both; point at one for its setting and its reason."
        text = page(title, caption, front_figure(found, PAGE))
        _outputs.write(path, text.encode())
    else:
        from forerun.plots import paper

        paper.save(paper.front_figure(found), path)


def page(title: str, caption: str, figure: go.Figure) -> str:
    """A page of one figure; title and caption are data from outside, and escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from plotly.offline import get_plotlyjs

    from forerun import __version__

    environment = Environment(
        loader=PackageLoader("forerun"), autoescape=True, undefined=StrictUndefined
    )
    library, script = get_plotlyjs(), asset("report.js")
    return environment.get_template("figure.html.j2").render(
        title=title,
        caption=caption,
        version=__version__,
        figures={"figure": json.loads(figure.to_json())},
        style=asset("report.css"),
        library=library,
        script=script,
        script_hashes=" ".join(script_hash(text) for text in (library, script)),
    )


def asset(name: str) -> str:
    """A file that pages are made of."""
    return files("forerun").joinpath("templates", name).read_text(encoding="utf-8")


def script_hash(script: str) -> str:
    """The word by which a content security policy knows an inline script."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
