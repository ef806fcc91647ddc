"""After how many steps compiling pays, on runs whose truth is known."""

from pathlib import Path

import pytest

from forerun.factors import Factor, Point, Space
from forerun.modelling.kept import model_of
from forerun.planning.estimates import Models
from forerun.planning.pays import Pays, beside, pays
from forerun.study import Run, Study

# Seconds to start, and of an epoch with batch 16 (batch 32 takes half of it).
TRUTH = {"eager": (2.0, 4.0), "compiled": (12.0, 3.0), "slow": (9.0, 4.8), "cached": (1.0, 3.0)}


def models(tmp_path: Path, variants: str, name: str = "variant", epochs: str = "1,3") -> Models:
    factors = ["batch=16,32", f"epochs={epochs}", f"{name}={variants}"]
    space = Space([Factor.parse(one) for one in factors])
    study = Study.create(tmp_path / "s.db", space)
    for point in space.grid():
        start, epoch = TRUTH[str(point[name])]
        taken = start + float(point["epochs"]) * epoch * 16 / float(point["batch"])
        for wobble in (0.999, 1.001):
            study.add(Run(point, {"seconds": wobble * taken}))
    return Models(space, model_of(study).model)


def test_what_it_takes_more_to_start_comes_back_in_steps(tmp_path: Path) -> None:
    known = models(tmp_path, "eager,compiled,slow,cached")
    at = {"batch": 16, "epochs": 100}
    found = pays(known, [Point({**at, "variant": variant}) for variant in TRUTH])
    compiled, slow, cached = found.values()  # nothing of the plain one
    assert (compiled.variant, compiled.plain, compiled.steps) == ("compiled", "eager", "epochs")
    assert compiled.start == pytest.approx(10, rel=0.1)
    assert compiled.step == pytest.approx(1, rel=0.1)
    assert compiled.after == pytest.approx(10, abs=1)
    assert compiled.told.startswith(f"compiled pays after {compiled.after} epochs: ")
    assert compiled.told.endswith(" less each epoch")
    assert slow.after is None
    assert slow.told.startswith("slow never pays: ")
    assert " more to start, " in slow.told
    assert cached.after == 0
    assert cached.told.startswith("cached pays at once: ")
    listed = beside(known, Point({**at, "variant": "slow"}))
    assert sorted(str(point["variant"]) for point in listed) == sorted(TRUTH)
    assert pays(known, listed) == found


def test_a_factor_of_that_role_does_as_well(tmp_path: Path) -> None:
    known = models(tmp_path, "eager,compiled", "compiler")
    found = pays(known, [point := Point({"batch": 32, "epochs": 3, "compiler": "compiled"})])[point]
    assert found.after == pytest.approx(20, abs=2)


def test_nothing_is_said_of_steps_that_were_always_as_many(tmp_path: Path) -> None:
    known = models(tmp_path, "eager,compiled", epochs="3")
    assert pays(known, [Point({"batch": 32, "epochs": 3, "variant": "compiled"})]) == {}


@pytest.mark.parametrize(
    ("start", "step", "spread", "told"),
    [
        (41, 1.1, 0.1, "xla pays after 38 epochs: 41 s more to start, 1.1 s less each epoch"),
        (41, -0.2, 0.1, "xla never pays: 41 s more to start, 200 ms more each epoch"),
        (-1, 1.1, 0.1, "xla pays at once: 1 s less to start, 1.1 s less each epoch"),
        (
            41,
            0.1,
            0.3,
            "whether xla pays cannot be told: 41 s more to start, 100 ms less each epoch, "
            "give or take 300 ms",
        ),
    ],
)
def test_in_words(start: float, step: float, spread: float, told: str) -> None:
    assert Pays("xla", "plain", "epochs", start, step, spread).told == told
