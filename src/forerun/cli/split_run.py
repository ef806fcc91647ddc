"""`forerun split run`: the answers of a network that several devices compute together."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forerun.cli.common import Json, counted, print_json, results, shown, table, working
from forerun.cli.split_common import Boards, Folder, On, Wire, need, progress
from forerun.cli.split_feeding import (
    Against,
    Crop,
    Inputs,
    Mean,
    Secret,
    Std,
    Where,
    right_answers,
    samples_of,
    setting_of,
)
from forerun.errors import InputError
from forerun.quantities import number, percent, seconds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from forerun.cli.split_feeding import Fed
    from forerun.splitting.bench import Setting
    from forerun.splitting.on_wire import Loss
    from forerun.splitting.session import Answer
    from forerun.splitting.split import Split

    Floats = NDArray[np.float32]

_CROP = 0.875
_ROWS = 10  # answers that are printed
_ARRAYS = {".npy": b"\x93NUMPY", ".npz": b"PK"}  # what such files begin with


def run(
    folder: Folder,
    input_: Inputs = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE.npy",
            help="Write the outputs here, one after the other; .npz for a network of several.",
            show_default=False,
        ),
    ] = None,
    against: Against = None,
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The classes' names, a line each.", show_default=False),
    ] = None,
    top: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many classes of each answer.")
    ] = 1,
    wire: Annotated[
        Wire, typer.Option(help="How devices send numbers to each other; with --on as they do.")
    ] = "float32",
    report_error: Annotated[
        bool,
        typer.Option(
            "--report-error",
            metavar="",
            help="Say what numbers lose on the wire at most; it takes the devices longer.",
        ),
    ] = False,
    in_flight: Annotated[
        int,
        typer.Option(
            metavar="K",
            min=1,
            help="Samples under way at a time: one may compute while another waits.",
        ),
    ] = 1,
    on: On = None,
    boards: Boards = None,
    secret_file: Secret = None,
    mean: Mean = None,
    std: Std = None,
    crop: Crop = _CROP,
    json: Json = False,
) -> None:
    """Run a split: all devices as processes of this machine, or boards that wait for samples.

    With --on the boards run `forerun split device` already, at the addresses that the file says.
    With --against it is an error (exit code 1) if a class is another one than the whole network's.
    """
    need("onnxruntime")
    from forerun.splitting.split import Split

    if output is not None:
        _check_output(output)
    split = Split.load(folder)
    names = _names(labels)
    called, samples = samples_of(split, input_, mean, std, crop)
    setting = setting_of(split, wire, in_flight, Where(on, boards, secret_file))
    setting = replace(setting, report_error=report_error)
    with working("computing the whole network's answers"):
        right = right_answers(split, against, samples)
    answers, lost = _answers(split, setting, samples)
    if output is not None:
        _write(output, answers)
    document: dict[str, Any] = {
        "folder": str(folder),
        "network": split.name,
        "layout": split.layout,
        "devices": split.devices,
        "output": None if output is None else str(output),
        "answers": [
            {"input": name, "seconds": one.seconds, **_classes(one.outputs, names, top)}
            for name, one in zip(called, answers, strict=True)
        ],
        "agreement": _agreement(answers, right),
        "wire_error": None if lost is None else lost._asdict(),
    }
    if json:
        print_json(document)
    else:
        _print(document)
    agreement = document["agreement"]
    if agreement is not None and agreement["same_class"] < len(answers):
        raise typer.Exit(1)


def _answers(split: Split, setting: Setting, samples: Fed) -> tuple[list[Answer], Loss | None]:
    """Every answer, and what was lost on the wire, if that is asked for.

    The devices are started first, which takes a moment.
    """
    from forerun.splitting.on_wire import largest_loss

    with working(f"starting {counted(split.devices, 'device')}"):
        devices = setting.devices(split)
        opened = devices.__enter__()
    try:
        if setting.report_error:  # who cannot say it says so before all samples are computed
            largest_loss(opened.totals())
        with progress(split.name, len(samples)) as tell:
            found = []
            for answer in opened.run(iter(samples)):
                found.append(answer)
                tell(len(found), f"{seconds(answer.seconds)} each")
        lost = largest_loss(opened.totals()) if setting.report_error else None
    finally:
        devices.__exit__(None, None, None)
    return found, lost


def _agreement(
    answers: Sequence[Answer], right: Sequence[Mapping[str, Floats]] | None
) -> dict[str, Any] | None:
    """How far the answers are from the whole network's; None where those are not known."""
    from forerun.splitting.comparing import difference, same_class

    if right is None:
        return None
    pairs = [(one.outputs, theirs) for one, theirs in zip(answers, right, strict=True)]
    return {
        "difference": max(difference(ours, theirs) for ours, theirs in pairs),
        "same_class": sum(same_class(ours, theirs) for ours, theirs in pairs),
    }


def _classes(outputs: Mapping[str, Floats], names: Sequence[str], top: int) -> dict[str, Any]:
    """The likeliest classes of an answer that is one vector; of others their shapes."""
    shapes = {name: list(array.shape) for name, array in outputs.items()}
    (vector,) = outputs.values() if len(outputs) == 1 else (None,)
    if vector is None or vector.dtype.kind != "f" or vector.size != max(vector.shape, default=0):
        return {"outputs": shapes, "classes": None}
    shares = _shares(vector.ravel())
    order = shares.argsort()[::-1][:top]
    return {
        "outputs": shapes,
        "classes": [
            {
                "class": int(place),
                "name": names[place] if place < len(names) else None,
                "share": float(shares[place]),
            }
            for place in order
        ],
    }


def _shares(scores: Floats) -> Floats:
    """How likely each class is: the scores themselves where they add up to 1, else a softmax."""
    import numpy as np

    if scores.min() >= 0 and abs(float(scores.sum()) - 1) < 1e-3:
        return scores
    powers = np.exp(scores - scores.max())
    found: Floats = powers / powers.sum()
    return found


def _names(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise InputError(str(path), "no text", "the name of a class on each line") from None


def _check_output(path: Path) -> None:
    """InputError unless arrays may be written here: to a new file, or over earlier ones."""
    mark = _ARRAYS.get(path.suffix)
    if mark is None:
        raise InputError("--output", path, "a name that ends in .npy or .npz")
    if path.exists():
        with path.open("rb") as file:
            if file.read(len(mark)) != mark:
                raise InputError(str(path), "a file of another kind", "a new file or arrays")


def _write(path: Path, answers: Sequence[Answer]) -> None:
    import numpy as np

    from forerun import _outputs

    def joined(found: Sequence[Any]) -> Any:
        """One after the other, along the batch where they have one."""
        return np.concatenate(found) if found[0].shape[:1] == (1,) else np.stack(found)

    arrays = {name: joined([one.outputs[name] for one in answers]) for name in answers[0].outputs}
    made = io.BytesIO()
    if path.suffix == ".npz":
        np.savez(made, allow_pickle=False, **arrays)
    elif len(arrays) > 1:
        raise InputError("--output", path, f"a name that ends in .npz, for {len(arrays)} outputs")
    else:
        np.save(made, next(iter(arrays.values())), allow_pickle=False)
    _outputs.write(path, made.getvalue())


def _print(document: Mapping[str, Any]) -> None:
    to = results()
    answers = document["answers"]
    made = table("input", "answer", "share", "seconds", numeric=("share", "seconds"))
    for one in answers[:_ROWS]:
        for row in _rows(one):
            made.add_row(*map(shown, row))
    to.print(made)
    if len(answers) > _ROWS:
        to.print(f"and {counted(len(answers) - _ROWS, 'more answer')}")
    if document["output"] is not None:
        to.print(f"written to {shown(document['output'])}", soft_wrap=True)
    if document["agreement"] is not None:
        to.print(_agreed(document["agreement"], len(answers)), soft_wrap=True)
    if document["wire_error"] is not None:
        to.print(_lost(document["wire_error"]), soft_wrap=True)


def _rows(one: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    took = seconds(one["seconds"])
    if one["classes"] is None:
        shapes = "; ".join(f"{n} {'x'.join(map(str, s))}" for n, s in one["outputs"].items())
        return [(one["input"], shapes, "", took)]
    rows: list[tuple[str, str, str, str]] = []
    for found in one["classes"]:
        named = f"{found['class']}" + (f" {found['name']}" if found["name"] else "")
        first = not rows
        share = percent(found["share"])
        rows.append((one["input"] if first else "", named, share, took if first else ""))
    return rows


def _agreed(agreement: Mapping[str, Any], samples: int) -> str:
    off = agreement["difference"]
    told = f"at most {number(off, 2)} of the largest number off" if off else "the same bits"
    same = agreement["same_class"]
    return f"against the whole network: {told}; the same class for {same} of {samples}"


def _lost(lost: Mapping[str, Any]) -> str:
    """In per cent of the largest number of a message: no layer's numbers have a unit."""
    if lost["device"] is None:
        return "on the wire: no number loses anything"
    share = f"{number(100 * lost['difference'], 2)} %"
    where = f"device {lost['device']}, message {lost['message']}"
    return f"on the wire: a number is off by at most {share} of its message's largest ({where})"
