"""Write what is generated in this directory: `python docs/generate.py`.

docs/reference/cli.md is what `forerun --help` and the `--help` of every verb print. In
docs/tutorial.md every line that starts with `$` is really run, and its output is put below it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

DOCS = Path(__file__).parent
CLI = DOCS / "reference" / "cli.md"
TUTORIAL = DOCS / "tutorial.md"
TERMINAL = {"COLUMNS": "88", "NO_COLOR": "1", "TERM": "dumb"}
_HEAD = """# Command line

Results go to standard output; progress, notes and warnings go to standard error. Every verb has
`--json`, whose documents are described in [json.md](json.md).

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | failed inside forerun (`FORERUN_DEBUG=1` shows the traceback), or in a check of a split |
| 2 | something given is wrong: one line says where, what was found and what was expected |
| 3 | the job that was waited for did not end well |
| 130 | interrupted |

"""
_BLOCK = re.compile(r"```console\n(.*?)```\n", re.DOTALL)
# The commands of a tutorial are those of this Python, whatever else is installed.
_SHELL = 'forerun() { "$PYTHON" -m forerun "$@"; }; python() { "$PYTHON" "$@"; }; '


def cli_page() -> str:
    """The page of all verbs, as their `--help` prints it on 88 columns without colour."""
    from forerun.cli import GROUPS, VERBS

    parts = [_HEAD, _section("forerun", [])]
    parts += [_section(f"forerun {verb}", [verb]) for verb in VERBS]
    for group, (gathered, _) in GROUPS.items():
        parts.append(_section(f"forerun {group}", [group]))
        for verb in gathered.registered_commands:
            assert verb.name is not None
            parts.append(_section(f"forerun {group} {verb.name}", [group, verb.name]))
    return "\n".join(parts).rstrip() + "\n"


def commands(text: str) -> list[str]:
    """The lines of a page that a reader types."""
    blocks = "".join(_BLOCK.findall(text))
    return [line.removeprefix("$ ") for line in blocks.splitlines() if line.startswith("$ ")]


def typed(command: str, directory: Path) -> str:
    """What a command prints, on both streams; CalledProcessError if it fails."""
    done = subprocess.run(
        ["bash", "-c", _SHELL + command],
        cwd=directory,
        env={**os.environ, **TERMINAL, "PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def with_output(text: str) -> str:
    """The page with the output of each command below it."""
    with tempfile.TemporaryDirectory() as directory:
        return _BLOCK.sub(
            lambda block: (
                "```console\n"
                + "".join(f"$ {c}\n{typed(c, Path(directory))}" for c in commands(block[0]))
                + "```\n"
            ),
            text,
        )


def _section(title: str, words: list[str]) -> str:
    return f"## {title}\n\n```text\n{_help(words)}\n```\n"


def _help(words: list[str]) -> str:
    from forerun.cli import main

    os.environ |= TERMINAL
    with redirect_stdout(StringIO()) as printed:
        main([*words, "--help"])
    lines = [line.rstrip() for line in printed.getvalue().splitlines()]
    return "\n".join(lines).strip("\n")


if __name__ == "__main__":
    CLI.write_text(cli_page(), encoding="utf-8")
    TUTORIAL.write_text(with_output(TUTORIAL.read_text(encoding="utf-8")), encoding="utf-8")
