"""`forerun split`: one network on several small devices, cut, checked, run and timed."""

from __future__ import annotations

import typer

from forerun.cli import (
    split_bench,
    split_check,
    split_cut,
    split_decouple,
    split_devices,
    split_run,
)

app = typer.Typer(
    name="split",
    help="""Run one network on several small devices: cut it, check it, run it, time it.

A convolutional network that is too slow or too large for one board is cut over several. Every
layout of an unmodified network is exact: nothing is trained again. `decouple` makes a network whose
parts need each other less, to be trained first. It needs `pip install 'forerun[split]'`.
""",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("cut")(split_cut.cut)
app.command("check")(split_check.check)
app.command("run")(split_run.run)
app.command("bench")(split_bench.bench)
app.command("push")(split_devices.push)
app.command("device")(split_devices.device)
app.command("decouple")(split_decouple.decouple)
