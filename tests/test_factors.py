import json
import math
from contextlib import suppress
from itertools import islice
from typing import Any, cast, get_args

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forerun.errors import FactorError
from forerun.factors import Factor, Point, Role, Scope, Space, Value, guess_role

# Text as people and files give it: anything but control characters, line ends and surrogates.
TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")))
NAMES = TEXT.filter(lambda text: bool(text) and text == text.strip() and "=" not in text)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = NUMBERS | TEXT
SCOPES: st.SearchStrategy[Scope] = st.sampled_from(get_args(Scope))
ROLES: st.SearchStrategy[Role | None] = st.sampled_from((None, *get_args(Role)))
WORDS = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda word: word not in {"nan", "inf", "infinity"}
)


@st.composite
def factors(draw: st.DrawFn) -> Factor:
    name = draw(NAMES.filter(lambda text: text != "variant"))
    scope = draw(SCOPES)
    if draw(st.booleans()):
        levels = tuple(draw(st.lists(TEXT, unique=True, max_size=5)))
        return Factor(name, "categorical", scope, draw(TEXT), None, levels)
    grid = tuple(draw(st.lists(NUMBERS, unique=True, max_size=5)))
    return Factor(name, "numeric", scope, draw(TEXT), draw(ROLES), grid)


# Points


@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_a_point_comes_back_from_its_key(values: dict[str, Value]) -> None:
    point = Point(values)
    again = Point.from_key(point.key)
    assert again == point == values
    assert (again.key, hash(again)) == (point.key, hash(point))
    assert list(map(type, again.values())) == [type(point[name]) for name in again]


@given(st.dictionaries(NAMES, VALUES, min_size=2, max_size=6))
def test_the_order_of_names_makes_no_difference(values: dict[str, Value]) -> None:
    turned = dict(reversed(values.items()))
    assert Point(turned) == Point(values)
    assert Point(turned).key == Point(values).key


@given(st.integers(-(2**70), 2**70))
def test_a_whole_number_is_the_same_as_int_and_as_float(number: int) -> None:
    assert Point({"x": number}).key == Point({"x": float(number)}).key


def test_values_have_one_form() -> None:
    point = Point(
        {"batch": 16.0, "rate": np.float64(0.1), "n": np.int32(3), "on": True, "off": np.bool_(0)}
    )
    assert point.key == '{"batch":16,"n":3,"off":"false","on":"true","rate":0.1}'
    assert type(point["batch"]) is int
    assert type(point["n"]) is int
    assert Point({"zero": -0.0}).key == '{"zero":0}'


def test_a_number_and_its_text_are_different_values() -> None:
    assert Point({"x": 1}) != Point({"x": "1"})


def test_a_point_cannot_be_changed() -> None:
    values: dict[str, Value] = {"batch": 16}
    point = Point(values)
    values["batch"] = 32
    assert point["batch"] == 16
    with pytest.raises(TypeError):
        cast(Any, point)["batch"] = 32


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, None, [1], b"x", 1j])
def test_a_point_refuses_what_is_neither_a_finite_number_nor_a_text(value: object) -> None:
    with pytest.raises(FactorError, match="factor batch: found"):
        Point({"batch": value})


@pytest.mark.parametrize("text", ["a\nb", "\x00", "\x1b[0m", "\u2028", "\ud800", "\x85"])
def test_control_characters_are_refused_in_names_and_levels(text: str) -> None:
    with pytest.raises(FactorError, match="control characters"):
        Point({"activation": f"re{text}lu"})
    with pytest.raises(FactorError, match="control characters"):
        Factor(f"acti{text}vation")
    with pytest.raises(FactorError, match="control characters"):
        Factor("batch", unit=f"sam{text}ples")


# Factors


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("workers=1,2,4", (1, 2, 4)),
        ("workers = 4, 1 ,2", (4, 1, 2)),
        ("rate=0.1,1e-3", (0.1, 0.001)),
        ("batch=16..256", (16, 32, 64, 128, 256)),
        ("batch=16..256:80", (16, 96, 176, 256)),
        ("batch=16..250:80", (16, 96, 176)),
        ("workers=1..8", (1, 2, 3, 4, 5, 6, 7, 8)),
        ("workers=1..10", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)),
        ("workers=1..20", (1, 2, 4, 8, 20)),
        ("workers=1..25", (1, 2, 4, 8, 16, 25)),
        ("batch=3..100", (3, 6, 12, 24, 48, 100)),
        ("padding=-2..2", (-2, -1, 0, 1, 2)),
        ("dropout=0..0.5", (0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)),
        ("rate=.1...5:.2", (0.1, 0.3, 0.5)),
        ("rate=0.01..0.2", (0.01, 0.02, 0.04, 0.08, 0.2)),
        ("nodes=4..4", (4,)),
    ],
)
def test_parse_numbers(text: str, values: tuple[float, ...]) -> None:
    factor = Factor.parse(text)
    assert factor.kind == "numeric"
    assert factor.values == values
    assert [type(value) for value in factor.values] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("activation=relu,tanh", ("relu", "tanh")),
        ("xla=true,false", ("true", "false")),
        ("data=../near,/far", ("../near", "/far")),
        ("variant=1,2", ("1", "2")),
        ("flags=-O2 -g,a=b", ("-O2 -g", "a=b")),
    ],
)
def test_parse_categories(text: str, values: tuple[str, ...]) -> None:
    factor = Factor.parse(text)
    assert (factor.kind, factor.values) == ("categorical", values)


def test_parse_marks_scope_and_role() -> None:
    assert Factor.parse("kernel=3,5", intrinsic=True).scope == "intrinsic"
    assert Factor.parse("gpus=1,2") == Factor("gpus", role="workers", values=(1, 2))
    assert Factor.parse("gpus=two,four").role is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batch=256..16", "factor batch: found 256..16, expected the lower end first: 16..256"),
        ("batch=", "factor batch: found no values, expected values such as"),
        ("batch=1,,2", "factor batch: found an empty value, expected values such as"),
        ("batch=1,2,1.0", "factor batch: found 1 twice, expected different values"),
        ("batch=1,two", "factor batch: found 1,two, expected only numbers or only categories"),
        ("batch=1..8:0", "factor batch: found step 0, expected a step above 0, up to 7"),
        ("batch=1..8:-1", "factor batch: found step -1, expected a step above 0, up to 7"),
        ("batch=1..8:9", "factor batch: found step 9, expected a step above 0, up to 7"),
        ("batch=1..8:x", "factor batch: found 1..8:x, expected low..high or low..high:step"),
        ("batch=1..", "factor batch: found 1.., expected low..high"),
        ("batch=..8", "factor batch: found ..8, expected low..high"),
        ("batch=a..b", "factor batch: found a..b, expected low..high"),
        ("batch=1..4,8", "factor batch: found 1..4,8, expected low..high"),
        ("batch=1e6..9e6", "factor batch: found 8000001 values, expected a step that gives"),
        ("batch=nan", "factor batch: found nan, expected a finite number"),
        ("batch=1,-inf", "factor batch: found -inf, expected a finite number"),
        ("batch=1e999", "factor batch: found 1e999, expected a finite number"),
        ("batch=1..1e999", "factor batch: found 1..1e999, expected finite numbers"),
        ("batch", "factor: found batch, expected name=values"),
        ("=1,2", "factor: found =1,2, expected name=values"),
        ("", "factor: found '', expected name=values"),
        ("act=re\nlu", r"factor act: found re\nlu, expected a text without control characters"),
    ],
)
def test_parse_refuses_in_one_line(text: str, message: str) -> None:
    with pytest.raises(FactorError) as caught:
        Factor.parse(text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@given(WORDS, st.lists(NUMBERS.map(lambda x: x + 0), unique=True, min_size=1, max_size=6))
def test_parse_gives_back_listed_numbers(name: str, numbers: list[float]) -> None:
    numbers = [number for number in numbers if abs(number) <= 1e300]
    if not numbers or name == "variant":
        return
    assert Factor.parse(f"{name}={','.join(map(repr, numbers))}").values == tuple(numbers)


@given(WORDS, st.lists(WORDS, unique=True, min_size=1, max_size=6))
def test_parse_gives_back_listed_categories(name: str, levels: list[str]) -> None:
    assert Factor.parse(f"{name}={','.join(levels)}").values == tuple(levels)


@given(st.integers(-500, 500), st.integers(0, 500))
def test_a_range_has_both_ends_and_rises(low: int, width: int) -> None:
    values = Factor.parse(f"x={low}..{low + width}").values
    assert (values[0], values[-1]) == (low, low + width)
    assert list(values) == sorted(set(values), key=float)


@given(st.text())
def test_parse_never_fails_otherwise(text: str) -> None:
    with suppress(FactorError):
        assert Factor.parse(text).values


@given(factors())
def test_a_factor_survives_json(factor: Factor) -> None:
    assert Factor.from_dict(json.loads(json.dumps(factor.to_dict()))) == factor


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": ""}, "factor name: found '', expected a name"),
        ({"name": " batch"}, "expected a name without"),
        ({"name": "a=b"}, "factor name: found a=b, expected a name without"),
        ({"name": "x", "kind": "ordinal"}, "kind: found ordinal, expected one of numeric, cat"),
        ({"name": "x", "scope": "other"}, "scope: found other, expected one of intrinsic, ext"),
        ({"name": "x", "role": "boss"}, "role: found boss, expected one of workers, nodes"),
        ({"name": "x", "unit": 3}, "unit: found 3, expected a text"),
        ({"name": "x", "values": ["a"]}, "factor x: found a, expected a number"),
        ({"name": "x", "values": [1, math.nan]}, "factor x: found nan, expected a finite number"),
        ({"name": "x", "colour": 1}, "factor field: found colour, expected one of name, kind"),
        ({"kind": "numeric"}, "factor: found no name, expected a name"),
        ({"name": ["x"]}, "factor name: found ['x'], expected a text"),
        ({"name": "variant"}, "factor variant: found numbers, expected categories"),
        (
            {"name": "gpus", "kind": "categorical", "role": "workers"},
            "factor gpus: found categories, expected numbers, for the role workers",
        ),
    ],
)
def test_a_factor_says_what_is_wrong(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(FactorError) as caught:
        Factor.from_dict(fields)
    assert message in str(caught.value)


def test_a_factor_reads_what_was_typed() -> None:
    assert Factor("batch").value(" 512 ") == 512
    assert Factor("precision", "categorical").value(16) == "16"
    assert Factor("precision", "categorical").value(16.0) == "16"
    assert Factor("xla", "categorical").value(True) == "true"
    with pytest.raises(FactorError, match="factor batch: found many, expected a number"):
        Factor("batch").value("many")


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("gpus", "workers"),
        ("num_gpus", "workers"),
        ("numWorkers", "workers"),
        ("processes", "workers"),
        ("num_replicas", "workers"),
        ("nodes", "nodes"),
        ("num_nodes", "nodes"),
        ("OMP_NUM_THREADS", "threads"),
        ("cpus_per_task", "threads"),
        ("batch", "batch"),
        ("batch_size", "batch"),
        ("batchsize", "batch"),
        ("batch_per_gpu", "batch"),
        ("local_bsz", "batch"),
        ("precision", "precision"),
        ("storage", "storage"),
        ("max_per_node", None),
        ("gpus_per_node", None),
        ("batch_norm", None),
        ("upper bound", None),
        ("kernel", None),
        ("", None),
    ],
)
def test_guess_role(name: str, role: Role | None) -> None:
    assert guess_role(name) == role


def test_a_category_is_never_a_count() -> None:
    assert guess_role("gpus", "categorical") is None
    assert guess_role("device", "categorical") == "device"


# Spaces

LENET = Space(
    [
        Factor("kernel", scope="intrinsic", values=(3, 5)),
        Factor("activation", "categorical", "intrinsic", values=("relu", "tanh")),
        Factor("batch", role="batch", values=(16, 32, 64)),
    ]
)


def test_a_space_lists_its_factors_in_order() -> None:
    assert LENET.names == ("kernel", "activation", "batch")
    assert LENET.intrinsic == ("kernel", "activation")
    assert LENET.extrinsic == ("batch",)
    assert LENET.numeric == ("kernel", "batch")
    assert LENET.categorical == ("activation",)
    assert LENET["batch"].role == "batch"
    assert Space(reversed(list(LENET.values()))) != LENET


def test_a_space_refuses_two_factors_of_one_name() -> None:
    with pytest.raises(FactorError, match="space: found two factors x, expected one factor a name"):
        Space([Factor("x"), Factor("x", "categorical")])


@given(st.lists(factors(), max_size=4, unique_by=lambda factor: factor.name))
def test_a_space_survives_json(listed: list[Factor]) -> None:
    space = Space(listed)
    again = Space.from_dict(json.loads(json.dumps(space.to_dict())))
    assert again == space
    assert hash(again) == hash(space)


def test_the_grid_is_every_combination_once() -> None:
    points = list(LENET.grid())
    assert len(points) == len(set(points)) == 12
    assert points[0] == {"kernel": 3, "activation": "relu", "batch": 16}
    assert points[1] == {"kernel": 3, "activation": "relu", "batch": 32}


def test_a_huge_grid_is_not_built_at_once() -> None:
    space = Space(Factor(f"x{i}", values=tuple(range(10))) for i in range(30))
    assert len(list(islice(space.grid(), 3))) == 3
    assert len(set(space.sample(5, seed=1))) == 5


def test_a_sample_is_drawn_from_the_grid_without_repetition() -> None:
    grid = set(LENET.grid())
    sample = LENET.sample(5, seed=7)
    assert len(set(sample)) == 5
    assert set(sample) <= grid
    assert sample == LENET.sample(5, seed=7)
    assert sample != LENET.sample(5, seed=8)
    assert set(LENET.sample(100)) == grid


def test_a_free_factor_has_no_grid() -> None:
    with pytest.raises(FactorError, match="factor x: found no values, expected values to choose"):
        Space([Factor("x")]).grid()


def test_a_point_is_read_and_checked() -> None:
    point = LENET.point({"batch": "512", "kernel": 3.0, "activation": "relu"})
    assert point == {"kernel": 3, "activation": "relu", "batch": 512}
    assert tuple(point) == LENET.names


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kernel": 3, "activation": "relu"}, "point: found no batch, expected values for kernel"),
        (
            {"kernel": 3, "activation": "relu", "batch": 1, "gpus": 2},
            "point: found gpus, expected one of kernel, activation, batch",
        ),
        ({"kernel": "3", "activation": "relu", "batch": 1}, "factor kernel: found '3', expected a"),
        ({"kernel": 3, "activation": 1, "batch": 1}, "factor activation: found 1, expected a lev"),
        (
            {"kernel": 3, "activation": "gelu", "batch": 1},
            "factor activation: found gelu, expected one of relu, tanh",
        ),
    ],
)
def test_check_names_what_is_wrong(values: dict[str, Value], message: str) -> None:
    with pytest.raises(FactorError) as caught:
        LENET.check(Point(values))
    assert message in str(caught.value)


def test_check_can_leave_levels_open() -> None:
    LENET.check(Point({"kernel": 3, "activation": "gelu", "batch": 1}), levels=False)


# Tables

TABLE = pd.DataFrame(
    {
        "activation": ["tanh", "relu", None, "relu"],
        "batch": [32, 16, 16, 64],
        "dropout": [0.5, 0.0, 0.1, 0.1],
        "xla": [True, False, True, True],
        "gpus": [1, 2, 1, 1],
    }
)


def test_a_space_comes_from_a_table() -> None:
    space = Space.from_table(
        TABLE, intrinsic=["activation", "dropout"], units={"batch": "samples"}, roles={}
    )
    assert space == Space(
        [
            Factor("activation", "categorical", "intrinsic", values=("", "relu", "tanh")),
            Factor("batch", unit="samples", role="batch", values=(16, 32, 64)),
            Factor("dropout", scope="intrinsic", values=(0, 0.1, 0.5)),
            Factor("xla", "categorical", role="compiler", values=("false", "true")),
            Factor("gpus", role="workers", values=(1, 2)),
        ]
    )


def test_only_the_named_columns_are_taken_where_both_scopes_are_given() -> None:
    space = Space.from_table(TABLE, intrinsic=["dropout"], extrinsic=["batch"])
    assert space.names == ("batch", "dropout")
    assert Space.from_table(TABLE, extrinsic=["gpus"], roles={"gpus": "device"})["gpus"].role == (
        "device"
    )


def test_a_table_says_what_it_lacks() -> None:
    with pytest.raises(FactorError, match="column: found kernel, expected one of activation, batc"):
        Space.from_table(TABLE, intrinsic=["kernel"])
    with pytest.raises(FactorError, match="factor batch: found both intrinsic and extrinsic"):
        Space.from_table(TABLE, intrinsic=["batch"], extrinsic=["batch"])
    with pytest.raises(FactorError, match="table: found no column kernel, expected columns activ"):
        LENET.with_values(TABLE)
    with pytest.raises(FactorError, match="factor x: found nan, expected a finite number"):
        Space.from_table(pd.DataFrame({"x": [1.0, math.nan]}))


def test_a_fine_grid_is_thinned_and_keeps_its_ends() -> None:
    space = Space.from_table(pd.DataFrame({"x": np.linspace(0, 1, 10_001)}))
    values = space["x"].values
    assert len(values) == 64
    assert (values[0], values[-1]) == (0, 1)


def test_numbers_that_name_a_variant_are_categories() -> None:
    space = Space.from_table(pd.DataFrame({"variant": [1, 2]}))
    assert space["variant"] == Factor("variant", "categorical", values=("1", "2"))
