"""Runs from hyperfine: the file that `hyperfine --export-json` writes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from forerun.errors import TableError
from forerun.factors import Space
from forerun.importing.columns import Columns, check_width, digest
from forerun.importing.options import ImportOptions
from forerun.importing.runs import Defaults, ImportedRuns, assemble
from forerun.importing.text import file_digest, read_json

_OWN = ("seconds", "memory_bytes", "status")
_MOST = 1000  # different commands
# A token of a command: the name of the parameter that may stand there, or literal text.
_Options = frozenset[tuple[str, str]]
_Tokens = tuple[_Options, ...]


def read(path: str, options: ImportOptions, like: Space | None = None) -> ImportedRuns:
    """One run for each time that was measured; parameters are factors, commands are variants."""
    results = _results(path)
    columns = _columns(path, results)
    return assemble(columns, options, Defaults(), like)


def _results(path: str) -> list[dict[str, Any]]:
    document = read_json(path)
    results = document.get("results") if isinstance(document, dict) else None
    if not isinstance(results, list) or not results:
        raise TableError(path, "no results", "a file of hyperfine --export-json")
    for at, result in enumerate(results, start=1):
        _check(f"{path} result {at}", result)
    return results


def _check(where: str, result: Any) -> None:
    if not isinstance(result, dict) or not isinstance(result.get("command"), str):
        raise TableError(where, "no command", "an object with command and times")
    times = result.get("times")
    if not isinstance(times, list) or not times:
        raise TableError(where, "no times", "the list of measured times")
    for name in ("exit_codes", "memory_usage_byte"):
        listed = result.get(name)
        if listed is not None and (not isinstance(listed, list) or len(listed) != len(times)):
            raise TableError(f"{where} {name}", "another length", f"{len(times)}, as many as times")
    parameters = result.get("parameters", {})
    if not isinstance(parameters, dict):
        raise TableError(f"{where} parameters", type(parameters).__name__, "an object")
    for name in parameters:
        if name in (*_OWN, "variant") or not name.isprintable() or not name:
            raise TableError(f"{where} parameters", repr(name), "another name for a parameter")


def _columns(path: str, results: Sequence[dict[str, Any]]) -> Columns:
    names = list(dict.fromkeys(name for one in results for name in one.get("parameters", {})))
    check_width(path, len(names))
    templates = _templates(path, results)
    cells: dict[str, list[str]] = {name: [] for name in names}
    cells |= {"variant": [], **{name: [] for name in _OWN}}
    numbers: list[int] = []
    digests: list[bytes] = []
    whole = file_digest(path)
    for at, (result, template) in enumerate(zip(results, templates, strict=True), start=1):
        memory = result.get("memory_usage_byte") or [""] * len(result["times"])
        codes = result.get("exit_codes") or [0] * len(result["times"])
        for time, code, used in zip(result["times"], codes, memory, strict=True):
            for name in names:
                cells[name].append(_text(result.get("parameters", {}).get(name, "")))
            cells["variant"].append(template)
            cells["seconds"].append(_text(time))
            cells["memory_bytes"].append(_text(used or ""))
            # null is the code of a command that a signal ended.
            cells["status"].append("failed" if code is None else _text(code))
            numbers.append(at)
            digests.append(digest("hyperfine", whole, len(digests)))
    if len(set(templates)) == 1:
        del cells["variant"]
    if not any(cells["memory_bytes"]):
        del cells["memory_bytes"]
    return Columns(path, cells, numbers, digests, word="result")


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else str(value)


def _templates(path: str, results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each result's command with its parameters' names in place of their values.

    Hyperfine writes the command with the values filled in. A token that equals a value may be the
    parameter or plain text; the commands of one template agree on one reading of every token.
    """
    templates: list[_Tokens] = []
    by_length: dict[int, list[int]] = {}
    placed: dict[_Tokens, int] = {}
    belongs: list[int] = []
    for at, result in enumerate(results, start=1):
        tokens = _tokens(result["command"], result.get("parameters", {}))
        if tokens not in placed:
            alike = by_length.setdefault(len(tokens), [])
            placed[tokens] = _place(tokens, templates, alike)
        if len(templates) > _MOST:
            found = f"more than {_MOST} different commands"
            raise TableError(f"{path} result {at}", found, "fewer, or parameters in them")
        belongs.append(placed[tokens])
    return ["".join(_shown(one) for one in templates[at]) for at in belongs]


def _place(tokens: _Tokens, templates: list[_Tokens], alike: list[int]) -> int:
    """The template of those `alike` in length that the tokens fit, made narrower; or a new one."""
    for at in alike:
        if not any(map(frozenset.isdisjoint, templates[at], tokens)):
            templates[at] = tuple(map(frozenset.intersection, templates[at], tokens))
            return at
    templates.append(tokens)
    alike.append(len(templates) - 1)
    return alike[-1]


def _tokens(command: str, parameters: Mapping[str, Any]) -> _Tokens:
    values: dict[str, set[tuple[str, str]]] = {}
    for name, value in parameters.items():
        if _text(value):
            values.setdefault(_text(value), set()).add((name, ""))
    longest_first = sorted(values, key=len, reverse=True)
    words = [_bounded(value) for value in longest_first]
    found = re.findall("|".join([*words, r"[^\W\d_]+", r"\d+", r"."]), command, re.DOTALL)
    return tuple(frozenset({("", token)} | values.get(token, set())) for token in found)


def _bounded(value: str) -> str:
    """A pattern for the value itself, not for a part of a longer number or word."""
    edges = [r"[0-9]" if end.isdigit() else r"[^\W\d_]" for end in (value[0], value[-1])]
    before = f"(?<!{edges[0]})" if value[0].isalnum() else ""
    after = f"(?!{edges[1]})" if value[-1].isalnum() else ""
    return before + re.escape(value) + after


def _shown(options: _Options) -> str:
    """The parameter where there is one, otherwise the text."""
    name, text = max(options)
    return f"{{{name}}}" if name else text
