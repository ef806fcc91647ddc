"""What the compilers' table says of rounds that are made up."""

import math
from pathlib import Path

import compilers_runs
import compilers_table
import numpy as np
import pytest
import rows
from steps_networks import NETWORKS

ROUNDS = 5


def write(folder: Path, ratios: dict[tuple[str, str], float]) -> None:
    """Rounds of plain and compiled steps, with so much between them, for each target."""
    made: list[dict[str, object]] = []
    for (framework, network), ratio in ratios.items():
        compiled = compilers_runs.VARIANTS[framework]
        for target, threads in compilers_runs.THREADS.items():
            for count in threads:
                same = {
                    "framework": framework,
                    "network": network,
                    "threads": count,
                    "target": target,
                }
                step = 0.1 * (1 + list(NETWORKS).index(network)) / count**0.5
                for variant, taken in (("plain", step), (compiled, ratio * step)):
                    first = 1.0 if variant == "plain" else 3.0
                    made.append({**same, "variant": variant, "kind": "first", "seconds": first})
                    for number in range(ROUNDS):
                        slow = 3.0 if number == 0 else 1 + 0.01 * (number % 2)
                        made.append(
                            {
                                **same,
                                "variant": variant,
                                "kind": "round",
                                "round": number,
                                "seconds": slow * taken,
                            }
                        )
    rows.append(folder / "compilers.csv", compilers_runs.COLUMNS, made)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ratios = {
        (framework, network): ratio
        for framework, ratio in (("pytorch", 0.7), ("tensorflow", 1.5))
        for network in ("mnist-cnn", "resnet-8", "resnet-20")
    }
    write(tmp_path, ratios)
    return tmp_path


def test_a_ratio_is_that_of_the_rounds_but_the_first(folder: Path) -> None:
    found = compilers_table.pairs(folder)
    assert len(found) == 24
    first = found[0]
    assert first.cell == ("pytorch", "mnist-cnn", 2, "avx2")
    assert len(first.steps) == ROUNDS - 1
    assert first.ratio[0] == pytest.approx(0.7)
    assert first.ratio[1] <= 0.7 + 1e-9
    assert 0.7 - 1e-9 <= first.ratio[2] < 0.71


def test_compiling_pays_when_the_longer_start_is_made_up_for(folder: Path) -> None:
    found = compilers_table.pairs(folder)
    quick, slow = found[0], next(one for one in found if one.cell[0] == "tensorflow")
    assert quick.pays_after == pytest.approx(2 / (0.3 * quick.seconds("plain")))
    assert math.isinf(slow.pays_after)


def test_a_third_is_a_third(folder: Path) -> None:
    found = compilers_table.pairs(folder)
    rounds = compilers_table.third_of_rounds(found, np.random.default_rng(0))
    assert len(rounds) == 24 * 2 * (ROUNDS - 1) // 3
    variants = compilers_table.third_of_variants(found, np.random.default_rng(0))
    assert len({run.point for run in variants}) == 24 * 2 // 3


def test_what_is_planted_is_chosen(folder: Path) -> None:
    found = compilers_table.pairs(folder)
    runs = compilers_table.third_of_variants(found, np.random.default_rng(0))
    decided = compilers_table.decided(found, runs)
    assert len(decided) == 18
    assert max(lost for lost, _ in decided.values()) < 0.03
    assert not any(wrong for _, wrong in decided.values())


def test_every_cell_is_asked_for_once_and_this_machine_first() -> None:
    cells = compilers_runs.cells()
    assert len(set(cells)) == len(cells) == 96
    assert {cell.target for cell in cells[:48]} == {"avx2"}
