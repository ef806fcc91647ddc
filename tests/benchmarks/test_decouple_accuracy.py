"""What the table of decoupled networks says of runs that are made up."""

import sys
from pathlib import Path

import decouple_accuracy_runs as runs
import decouple_accuracy_table as table
import pytest
import rows

from forerun.errors import InputError

# Accuracy of the first seed; later ones differ by as much in all variants.
PLANTED = {
    "dense": 0.85,
    "dense x0.9": 0.84,
    "groups": 0.78,
    "shuffles": 0.80,
    "shuffles x1.5": 0.83,
    "shuffles x1.75": 0.852,
}


def write(folder: Path, accuracies: dict[str, float], seeds: int, noise: float = 0.0) -> Path:
    for one in runs.wanted(seeds, 15):
        if one.variant in accuracies:
            odd = noise if one.seed % 2 else -noise
            found = accuracies[one.variant] + 0.001 * one.seed
            found += odd if one.variant.startswith("shuffles") else 0
            made = {name: getattr(one, name) for name in runs.KEY} | {"accuracy": found}
            made |= {"macs": 10**7, "parameters": 61470, "processor_seconds": 900}
            rows.append(folder / "decouple-accuracy.csv", runs.COLUMNS, [made])
    return folder


def test_differences_are_paired_by_seed(tmp_path: Path) -> None:
    found = table.accuracies(table.read(write(tmp_path, PLANTED, 5, 0.001)))
    apart = table.difference(found, "shuffles", "groups")
    # +1.9, +2.1, +1.9, +2.1, +1.9 points: mean 1.98, deviation 0.1095, t of 4 at 95 % 2.776.
    assert apart.mean == pytest.approx(1.98)
    assert apart.half == pytest.approx(2.776 * 0.10954 / 5**0.5, rel=1e-3)
    assert apart.count == 5


def test_claims_that_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert table.show(write(tmp_path, PLANTED, 5, 0.001)) == 0
    said = capsys.readouterr().out
    assert "resnet-8-quick on CIFAR-10, 15 epochs, up to 5 seeds, whole test set" in said
    assert "Stage shuffles are above none by more than the interval: +1.98 points" in said
    assert said.count(": holds") == 2


@pytest.mark.parametrize(
    ("changed", "lost"),
    [
        ({"shuffles": 0.7801}, "Stage shuffles are above none"),
        ({"shuffles x1.75": 0.8455}, "x1.75 with shuffles is not below dense"),
    ],
)
def test_a_claim_that_does_not_hold_is_said(
    tmp_path: Path, changed: dict[str, float], lost: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert table.show(write(tmp_path, PLANTED | changed, 5, 0.001)) == 1
    (line,) = [one for one in capsys.readouterr().out.splitlines() if "does NOT hold" in one]
    assert line.startswith(lost)


def test_what_there_is_so_far_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = {name: PLANTED[name] for name in ("dense", "shuffles x1.75")}
    assert table.show(write(tmp_path, part, 1)) == 1  # one seed has no interval
    said = capsys.readouterr().out
    assert "up to 1 seeds" in said
    assert "-inf to +inf; 1 seed): does NOT hold" in said
    assert "nan" in said  # nothing is known of the other claim


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"found no decouple-accuracy.csv, expected a folder"):
        table.show(tmp_path)
    (tmp_path / "decouple-accuracy.csv").write_text(
        "network,variant,seed,epochs,accuracy,macs,parameters\nresnet-8-quick,other,0,15,0.5,1,1\n"
    )
    with pytest.raises(InputError, match="variant: found other, expected one of dense"):
        table.show(tmp_path)
    with pytest.raises(InputError, match="found no runs of resnet-8, expected some"):
        table.show(tmp_path, "resnet-8")


def test_seeds_come_one_after_the_other() -> None:
    wanted = runs.wanted(5, 15)
    assert len(wanted) == len(set(wanted)) == 30
    assert [one.seed for one in wanted[:7]] == [0] * 6 + [1]
    assert {one.variant for one in wanted} == set(table.ORDER)


def test_a_run_is_an_ordinary_command(tmp_path: Path) -> None:
    words = runs.Run("shuffles x1.75", 3, 15).words(tmp_path, Path("data"))
    assert words[:3] == [sys.executable, "-m", "forerun.splitting.train"]
    given = dict(zip(words[3::2], words[4::2], strict=True))
    assert given["--groups"] == "4"
    assert given["--width"] == "1.75"
    assert given["--seed"] == "3"
    assert given["--output"] == str(tmp_path / "resnet-8-quick-shuffles-x1.75-3-15.onnx")


def test_each_run_is_written_down_when_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "decouple-accuracy.csv"
    wanted = runs.wanted(2, 15)

    def make(run: runs.Run) -> runs.Row:
        if run == wanted[4]:
            raise InputError("run", "exit code 1", "a run that ends")
        return {name: getattr(run, name) for name in runs.KEY} | {"accuracy": 0.8}

    with pytest.raises(InputError, match="exit code 1"):
        runs.at_a_time(wanted, 1, make, path)
    made = [tuple(row[name] for name in runs.KEY) for row in rows.recorded(path)]
    assert made[:4] == [run.key for run in wanted[:4]]
    left = list(rows.missing(wanted, made, lambda run: run.key))
    assert wanted[4] in left
    assert len(left) == len(wanted) - len(made)


def test_a_row_says_what_the_weights_say(tmp_path: Path) -> None:
    from forerun.splitting import export
    from forerun.splitting.decouple import variant

    kind = {"network": "resnet-8", "classes": 10, "width": 1.75, "groups": 4}
    history = [
        {"accuracy": 0.5, "seconds": 10.0, "processor_seconds": 9.0},
        {"accuracy": 0.75, "seconds": 12.0, "processor_seconds": 9.5},
    ]
    module = variant(**kind)  # type: ignore[arg-type]
    path = tmp_path / "run.safetensors"
    export.save(path, module.state_dict(), {"network": kind, "history": history})
    found = runs.row(runs.Run("shuffles x1.75", 0, 2), path)
    assert found["accuracy"] == 0.75
    assert found["macs"] == 10_007_648
    assert found["parameters"] == 61470
    assert (found["seconds"], found["processor_seconds"]) == (22.0, 18.5)


def test_a_process_that_fails_is_told_with_its_log(tmp_path: Path) -> None:
    processes = runs.Processes()
    with pytest.raises(
        InputError, match=r"dense, seed 0: found exit code 2, .*resnet-8-quick-dense-0-1.log"
    ):
        runs.trained(runs.Run("dense", 0, 1), tmp_path, tmp_path / "none", processes)
    log = (tmp_path / "resnet-8-quick-dense-0-1.log").read_text()
    assert "cifar10-images.npy: found" in log
