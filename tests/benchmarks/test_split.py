"""The table of benchmarks/split.py: its cells, what follows from a row, and what is claimed."""

from dataclasses import replace
from pathlib import Path

import pytest
import rows
import split_prepared
from split_claims import claims, least, tolerance
from split_devices import asked_for, rate
from split_rows import COLUMNS, Row, Table, disturbed, read
from split_ways import DECOUPLED, IN_FLIGHT, NETWORKS, cells
from split_weak_rows import Weak

from forerun.errors import InputError

ROW = Row(
    network="resnet-50",
    devices=1,
    way="dense",
    wire="float32",
    in_flight=1,
    layout="whole",
    samples=100,
    p50_ms=800.0,
    p99_ms=820.0,
    baseline_p50_ms=800.0,
    throughput=1.25,
    baseline_throughput=1.25,
    weights_bytes=100_000_000,
    activations_bytes=10_000_000,
    resident_bytes=300_000_000,
    sent_bytes=0,
    waiting=0.0,
    alone_ms=780.0,
    ideal_ms=0.0,
    transfer_ms=0.0,
    baseline_alone_ms=780.0,
    image_ms=48.0,
    answers=100,
    same_class=100,
    largest_error=1e-6,
    calibration="2026-01-01T00:00:00+00:00",
    started="2026-01-01T00:01:00+00:00",
    other_load=0.0,
    stolen=0.0,
)
SINGLE = replace(ROW, way="decnn-1.75", p50_ms=760.0, baseline_p50_ms=798.0)
SPLIT = replace(SINGLE, devices=4, p50_ms=320.0, baseline_p50_ms=800.0, sent_bytes=1_840_000)
SMALL = replace(
    SPLIT,
    wire="int8",
    p50_ms=240.0,
    alone_ms=180.0,
    ideal_ms=176.0,
    transfer_ms=37.0,
    weights_bytes=22_000_000,
    resident_bytes=100_000_000,
    largest_error=0.02,
)
BUSY = replace(SMALL, in_flight=IN_FLIGHT, throughput=5.2)
WEAK = Weak(
    experiment="scheme 3",
    name="equal",
    network="resnet-50",
    devices=4,
    way="decnn-1.75",
    wire="float32",
    in_flight=IN_FLIGHT,
    megabits=85.0,
    loss=0.0,
    limit_bytes=0,
    throughput=5.1,
    plain_throughput=3.0,
    killed=0,
    resident_bytes=100_000_000,
    answers=40,
    largest_error=1e-6,
    calibration=ROW.calibration,
    started=ROW.started,
    other_load=0.0,
    stolen=0.0,
)


def test_the_cells_that_are_wanted_most_come_first() -> None:
    every = list(cells())
    assert [str(cell) for cell in every[:2]] == [
        "resnet-50 exact on 4, float32 on the wire",
        "resnet-50 decnn-1.75 on 4, int8 on the wire",
    ]
    assert len({cell.key for cell in every}) == len(every)
    assert {cell.network for cell in every} == set(NETWORKS)
    for network in NETWORKS:
        own = [cell for cell in every if cell.network == network]
        assert {cell.devices for cell in own} == {1, 2, 4}
        assert any(cell.way.width for cell in own) == (network in DECOUPLED)
        ways = {cell.way.layout for cell in own if cell.devices == 4}
        assert ways >= {"exact", "replicas", "rows", "outputs", "pipeline"}


def test_every_width_has_every_wire() -> None:
    for width in (1.5, 1.75):
        for devices in (2, 4):
            name = f"decnn-{width:g}"
            found = {c.wire for c in cells(["vgg-16"], [name]) if c.devices == devices}
            assert found == {"float32", "float16", "int8"}


def test_ways_can_be_selected() -> None:
    found = list(cells(["resnet-34"], ["dense", "rows"]))
    assert [str(cell) for cell in found] == [
        "resnet-34 rows on 4, float32 on the wire",
        "resnet-34 dense on 1",
        "resnet-34 rows on 2, float32 on the wire",
    ]


def test_a_speed_up_is_the_product_of_its_factors() -> None:
    table = Table([ROW, SINGLE, SPLIT, SMALL])
    factors = table.factors(SMALL)
    assert factors is not None
    assert factors.structure == pytest.approx(798 / 760)
    assert factors.precision == pytest.approx(320 / 240)
    product = factors.structure * factors.parallelism * factors.precision
    assert product == pytest.approx(SMALL.faster) == pytest.approx(800 / 240)
    assert str(factors) == "1.05 x 2.38 x 1.33"
    assert Table([SMALL]).factors(SMALL) is None


def test_the_ceiling_is_arithmetic_and_then_bytes() -> None:
    assert SMALL.ceiling == pytest.approx(780 / 213)
    assert SMALL.reached == pytest.approx(213 / 240)
    assert ROW.ceiling is ROW.reached is None


def test_rows_are_written_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "split.csv"
    rows.append(path, COLUMNS, [rows.written(one) for one in (ROW, SMALL)])
    rows.append(path, COLUMNS, [rows.written(replace(ROW, p50_ms=790.0))])
    assert read(path) == [ROW, SMALL, replace(ROW, p50_ms=790.0)]
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "other.csv")


def test_of_several_visits_the_one_in_the_middle_counts() -> None:
    visits = [replace(SMALL, p50_ms=ms) for ms in (260.0, 230.0, 250.0, 240.0)]
    busy = [replace(BUSY, throughput=rate) for rate in (5.0, 5.4, 4.9)]
    table = Table([*visits[:3], *busy, visits[3]])
    assert table.rows == [visits[2], busy[0]]
    assert table.get("resnet-50", 4, "decnn-1.75", "int8") == visits[2]
    assert len(table.visits[SMALL.key]) == 4
    wrong = replace(visits[0], largest_error=1.0)  # in whichever visit
    text = "all of 300 answers"
    assert told(Table([wrong, *visits[1:3]]), [], text).endswith("does not hold")


def test_a_rate_is_of_the_time_during_which_all_places_are_taken() -> None:
    assert rate(0.0, [1.0, 2.0, 3.0, 4.0], 1) == pytest.approx(1.0)
    # Three at a time, one a second. The last ones have nobody after them to share with.
    ended = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 6.5, 6.75, 6.875]
    assert asked_for(1, 3) == asked_for(3, 3) == len(ended)
    assert asked_for(4, 1) == 4
    assert rate(0.0, ended, 3) == pytest.approx(1.0)
    # Nine seconds for each three, which end nearly together: of the third three one is not counted.
    together = [8.9, 8.95, 9.0, 17.9, 17.95, 18.0, 26.9, 26.95, 27.0, 35.9, 35.95, 36.0][:10]
    assert rate(0.0, together, 3) == pytest.approx(1 / 3)


def told(table: Table, weak: list[Weak], start: str) -> str:
    (found,) = [str(one) for one in claims(table, weak) if one.text.startswith(start)]
    return found


def test_claims_are_judged_by_their_figures() -> None:
    table = Table([ROW, SINGLE, SPLIT, SMALL, BUSY])
    times = "DeCNN x1.75, int8 on the wire, times as fast"
    assert told(table, [], times) == f"{times} 3.333 (claim 3.21): holds"
    slower = Table([ROW, replace(SMALL, p50_ms=260.0)])
    assert told(slower, [], times) == f"{times} 3.077 (claim 3.21): does not hold"
    assert told(table, [], "exact, float32 on the wire, times").endswith("not measured")
    assert told(table, [], "throughput of DeCNN").endswith("4.160 (claim 4): holds")
    below = "DeCNN x1.75, weights and peak activations, share below dense"
    assert told(table, [], below) == f"{below} 0.709 (claim 0.653): holds"


def test_scheme_3_is_judged_where_it_pays_and_elsewhere() -> None:
    table = Table([SMALL, replace(BUSY, throughput=1.2)])
    slow = replace(WEAK, name="slow", megabits=20.0, throughput=2.0, plain_throughput=1.9)
    assert "85 Mbit/s" in told(table, [WEAK, slow], "scheme 3 where")
    assert told(table, [WEAK, slow], "scheme 3 where").endswith("1.700 (claim 1.6): holds")
    elsewhere = told(table, [WEAK, slow], "elsewhere")
    assert "resnet-50 decnn-1.75 on 4" in elsewhere
    assert elsewhere.endswith("0.960 (claim 0.97): does not hold")


def test_memory_and_weak_links_are_judged_by_their_experiments() -> None:
    ours = replace(WEAK, experiment="memory", name="128 MB", limit_bytes=128_000_000)
    dense = replace(ours, way="dense", devices=1, killed=1, answers=0)
    lossy = replace(WEAK, experiment="loss", name="3 %", loss=0.03, throughput=2.3)
    table = Table([ROW])
    assert told(table, [ours, dense], "DeCNN x1.75 answers on boards of 128 MB").endswith(": holds")
    assert told(table, [ours, dense], "where dense on one is killed").endswith(": holds")
    assert "0.767" in told(table, [lossy], "loss of 3%")
    assert told(table, [lossy], "loss of 1%").endswith("not measured")


def test_a_wrong_answer_is_told() -> None:
    wrong = replace(SPLIT, largest_error=3e-4)
    assert tolerance(wrong) == 1e-4
    assert tolerance(replace(wrong, way="exact int8")) == tolerance(SMALL) == 0.1
    assert tolerance(replace(SMALL, way="exact int8")) == 0.2
    assert told(Table([ROW, wrong]), [], "all of 200 answers").endswith("does not hold")
    assert told(Table([ROW, SMALL]), [], "all of 200 answers").endswith(": holds")


def test_another_class_is_told() -> None:
    other = replace(SPLIT, same_class=99)
    text = "all of 200 in float32 say the same class"
    assert told(Table([ROW, SPLIT, replace(SMALL, same_class=9)]), [], text).endswith(": holds")
    found = told(Table([ROW, other]), [], text)
    assert found.endswith("but for resnet-50 decnn-1.75: does not hold")


def test_a_slow_baseline_is_told() -> None:
    assert told(Table([ROW]), [], "dense on one board takes").endswith("holds")
    slow = replace(ROW, baseline_alone_ms=700.0)
    assert told(Table([slow]), [], "dense on one board takes").endswith("does not hold")


def test_rows_that_others_disturbed_are_known() -> None:
    assert disturbed(ROW) == 0
    assert disturbed(replace(ROW, other_load=0.5)) == pytest.approx(0.1)
    assert disturbed(replace(WEAK, stolen=0.15)) == pytest.approx(0.1)


def test_the_ideal_share_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_prepared, "exported", lambda *given: given[-1])
    found: dict[str, object] = {
        str(cell): split_prepared.ideal(Path(), cell)
        for cell in cells(["resnet-50"], ["dense", "exact", "decnn-1.75", "replicas"])
        if cell.wire == "float32"
    }
    assert found == {
        "resnet-50 exact on 4, float32 on the wire": "rows-64",
        "resnet-50 decnn-1.75 on 4, float32 on the wire": "groups-1-0.4375",
        "resnet-50 replicas on 4, float32 on the wire": None,
        "resnet-50 dense on 1": None,
        "resnet-50 decnn-1.75 on 1": None,
        "resnet-50 exact on 2, float32 on the wire": "rows-128",
        "resnet-50 decnn-1.75 on 2, float32 on the wire": "groups-2-0.875",
        "resnet-50 replicas on 2, float32 on the wire": None,
    }


def test_a_limit_itself_is_enough() -> None:
    assert least("x", 2.4, 2.4).holds is True
    assert least("x", 2.39, 2.4).holds is False
    assert least("x", None, 2.4).holds is None
