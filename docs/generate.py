"""Write the generated pages of this directory: `python docs/generate.py`.

docs/reference/cli.md is what `forerun --help` and the `--help` of every verb print.
"""

from __future__ import annotations

import os
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

CLI = Path(__file__).parent / "reference" / "cli.md"
_HEAD = """# Command line

Results go to standard output; progress, notes and warnings go to standard error. Every verb has
`--json`, whose documents are described in [json.md](json.md).

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | failed inside forerun; `FORERUN_DEBUG=1` shows the traceback |
| 2 | something given is wrong: one line says where, what was found and what was expected |
| 130 | interrupted |

"""


def cli_page() -> str:
    """The page of all verbs, as their `--help` prints it on 88 columns without colour."""
    from forerun.cli import VERBS

    parts = [_HEAD, _section("forerun", [])]
    parts += [_section(f"forerun {verb}", [verb]) for verb in VERBS]
    return "\n".join(parts).rstrip() + "\n"


def _section(title: str, words: list[str]) -> str:
    return f"## {title}\n\n```text\n{_help(words)}\n```\n"


def _help(words: list[str]) -> str:
    from forerun.cli import main

    os.environ |= {"COLUMNS": "88", "NO_COLOR": "1", "TERM": "dumb"}
    with redirect_stdout(StringIO()) as printed:
        main([*words, "--help"])
    lines = [line.rstrip() for line in printed.getvalue().splitlines()]
    return "\n".join(lines).strip("\n")


if __name__ == "__main__":
    CLI.parent.mkdir(parents=True, exist_ok=True)
    CLI.write_text(cli_page(), encoding="utf-8")
