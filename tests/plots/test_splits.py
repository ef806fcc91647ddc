from forerun.plots.splits import SHARE_COLUMNS, agreement, cuts, section, speed
from forerun.splitting.measured import WHOLE, DeviceShare, Measured


def share(device: int, macs: int) -> DeviceShare:
    return DeviceShare(
        device=device,
        macs=macs,
        weights_bytes=2048,
        activations_bytes=3072,
        sent_bytes=2048,
        memory_bytes=50 * 2**20,
        waiting=0.2,
    )


def measured(devices: int = 2, **more: object) -> Measured:
    fields = {
        "network": "lenet",
        "layout": "rows",
        "devices": devices,
        "samples": 100,
        "p50": 0.002,
        "p99": 0.0031,
        "per_second": 480.0,
        "host": "shelf",
        "shares": [share(n, 3_000_000 - 1_000_000 * n) for n in range(devices)],
        **more,
    }
    return Measured.model_validate(fields)


def test_without_splits_there_is_no_section() -> None:
    assert section(()) is None


def test_a_row_says_what_a_setting_took() -> None:
    made = section([measured(difference=2.5e-7, wire="int8")])
    assert made is not None
    assert dict(zip(made.columns, made.rows[0], strict=True)) == {
        "split": "rows on 2",
        "p50": "2 ms",
        "p99": "3.1 ms",
        "per s": "480",
        "memory": "50 MiB",
        "sent": "4 KiB",
        "waits": "20 %",
        "off by": "2.5e-07",
    }
    assert (made.hosts, made.samples, made.words) == ("shelf", 100, 1)


def test_what_differs_between_settings_has_a_column() -> None:
    made = section([measured(1), measured(wire="int8"), measured(network="other", in_flight=2)])
    assert made is not None
    assert made.columns[: made.words] == ("network", "split", "wire", "in flight")
    assert [row[2] for row in made.rows] == ["–", "int8", "float32"]
    alone = section([measured(1), measured(wire="int8")])
    assert alone is not None
    assert alone.columns[0] == "split"
    assert alone.words == 1  # one device sends nothing over a wire


def test_a_cut_is_shown_once_whatever_it_was_run_with() -> None:
    (made,) = cuts([measured(1), measured(), measured(wire="int8"), measured(in_flight=2)])
    assert made.title == "lenet over 2 devices, rows"
    assert [part.share for part in made.parts] == [0.6, 0.4]
    assert dict(zip(SHARE_COLUMNS, made.parts[0].cells, strict=True)) == {
        "multiply-accumulates": "3 M",
        "weights": "2 KiB",
        "peak activations": "3 KiB",
        "sent": "2 KiB",
        "memory": "50 MiB",
    }


def compared(difference: float, reference: str | None = WHOLE, **more: object) -> Measured:
    return measured().model_copy(update={"difference": difference, "reference": reference, **more})


def test_how_far_the_answers_agree() -> None:
    assert agreement([measured()]) == (
        "The answers were not compared with those of the whole network."
    )
    exact, close = compared(0.0), compared(3e-7, same_class=100)
    alone = measured(1, difference=1.0)  # one device alone is not what is asked about
    assert agreement([exact]) == "Their answers are the whole network's, to the last bit."
    assert agreement([exact, close, alone]) == (
        "Their answers differ from the whole network's by at most 3e-07 of the largest number;"
        " the class is the same for all 100 samples."
    )
    other = compared(0.02, same_class=98, wire="int8")
    assert agreement([close, other]).endswith("the class is the same for 198 of 200 samples.")


def test_answers_that_were_compared_with_those_of_a_split() -> None:
    first = measured(wire="int8", precision="int8").title
    assert first == "rows on 2, computed in int8, int8 on the wire"
    assert measured(1, wire="int8").title == "rows on 1"  # which sends nothing
    assert (
        agreement([compared(0.0, first)]) == f"Their answers are those of {first}, to the last bit."
    )
    assert agreement([compared(2e-7), compared(0.1, first), compared(1e-7)]) == (
        "Their answers differ from the whole network's by at most 2e-07 of the largest number."
        f" Other answers differ from those of {first} by at most 0.1 of the largest number."
    )
    assert agreement([compared(0.1, None)]) == (  # by an earlier forerun, which did not say
        "Their answers differ from those that they were compared with by at most 0.1 of the"
        " largest number."
    )


def test_how_much_sooner_several_devices_answer() -> None:
    settings = [measured(1, p50=0.006), measured(wire="int8"), measured(in_flight=2, p50=0.004)]
    assert speed(settings) == (
        "lenet: the soonest answer of several is 3 times as soon as that of one device (rows on 2)."
    )
    assert speed(settings[:1]) == speed(settings[1:]) == ""
