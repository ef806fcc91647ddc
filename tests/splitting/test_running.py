"""Whole splits: real processes on loopback, and what happens to them."""

import json
import math
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import onnx
import pytest
import small_splits
from device_beds import Bed, Impostor, Relay, ended, free_ports, greeted, known_session
from numpy.typing import NDArray
from onnx_networks import decoupled
from patience import ENDLESS, LONG, Ticking, alive, wait_for

from forerun.errors import InputError
from forerun.splitting.cut import cut
from forerun.splitting.device.links import HEADER, INPUT, what
from forerun.splitting.device.links import TOTALS as FRAME_OF_TOTALS
from forerun.splitting.graph import Graph
from forerun.splitting.layout import layout
from forerun.splitting.running import Local, Session, device_command, new_secret

pytestmark = pytest.mark.usefixtures("patient_devices")
Floats = NDArray[np.float32]


CABLE = str(Path(__file__).with_name("cut_connections.py"))
AMOUNTS = "device samples abandoned seconds computing_seconds paced_seconds waiting_seconds"
AMOUNTS += " idle_seconds broken_connections memory_bytes"
TABLES = ("sent_bytes", "sent_messages", "received_bytes")
TOTALS: dict[str, Any] = dict.fromkeys(AMOUNTS.split(), 0) | {one: {"host": 1} for one in TABLES}
NO_SECRET = "another secret (or addresses are translated on the way)"
TAKEN = "another host came later and has taken the devices"
REFUSED = f"has not answered for 5 s: it refuses this side, which has {NO_SECRET}"


def largest_error(found: Floats, whole: Floats) -> float:
    return float(np.abs(found - whole).max() / np.abs(whole).max())


@pytest.fixture(scope="module")
def network() -> onnx.ModelProto:
    return decoupled(size=16, width=8, groups=2)


@pytest.fixture(scope="module")
def images() -> list[Floats]:
    random = np.random.default_rng(0)
    return [random.standard_normal((1, 3, 16, 16)).astype(np.float32) for _ in range(8)]


@pytest.mark.parametrize(
    ("name", "devices", "in_flight"),
    [("rows", 2, 1), ("fused", 3, 2), ("outputs", 2, 4), ("groups", 2, 2), ("pipeline", 3, 4)],
)
def test_a_network_that_was_cut_answers_as_the_whole_one_does(
    network: onnx.ModelProto,
    images: list[Floats],
    tmp_path: Path,
    name: str,
    devices: int,
    in_flight: int,
) -> None:
    graph = Graph.of(network)
    cut(graph, layout(graph, name, (1,) * devices), tmp_path / "split", name="small")
    with Local(tmp_path / "split", in_flight=in_flight) as running:
        answers = list(running.run(images))
        totals = running.totals()
    assert [answer.sample for answer in answers] == list(range(len(images)))
    for image, answer in zip(images, answers, strict=True):
        for output, whole in small_splits.answer(network, image).items():
            assert largest_error(answer.outputs[output], whole) < 1e-5
    assert [one["samples"] for one in running.ended] == [len(images)] * devices
    assert [one["broken_connections"] for one in totals] == [0] * devices


@pytest.mark.parametrize("in_flight", [1, 2, 4])
def test_answers_are_the_same_bits_with_any_number_in_flight(
    tmp_path: Path, in_flight: int
) -> None:
    made = small_splits.rows(tmp_path, 3)
    samples = small_splits.samples(9)
    with Local(tmp_path, in_flight=in_flight) as running:
        answers = list(running.run(samples))
        again = list(running.run(samples))  # the session goes on
    for sample, answer, same in zip(samples, answers, again, strict=True):
        assert answer.sample == same.sample
        assert answer.seconds > 0
        for name, whole in small_splits.answer(made, sample).items():
            assert largest_error(answer.outputs[name], whole) < 1e-5
            assert (answer.outputs[name] == same.outputs[name]).all()


@pytest.mark.parametrize(("wire", "error"), [("float16", 5e-4), ("int8", 2e-2)])
def test_fewer_bytes_cost_little(tmp_path: Path, wire: str, error: float) -> None:
    made = small_splits.groups(tmp_path, 3)
    samples = small_splits.samples(4, 18)
    with Local(tmp_path, wire=wire, in_flight=2, report_error=True) as running:
        answers = list(running.run(samples))
    for sample, answer in zip(samples, answers, strict=True):
        whole = small_splits.answer(made, sample)["y"]
        assert 0 < largest_error(answer.outputs["y"], whole) < error
    size = {"float16": 2 * 30 * 2, "int8": 8 + 8 + 64}[wire]
    for one in running.ended:
        assert 0 < one["wire_errors"]["10"] < error
        sent = {peer: count for peer, count in one["sent_bytes"].items() if peer != "host"}
        assert set(sent.values()) == {4 * (24 + size)}


def test_replicas_take_turns(tmp_path: Path) -> None:
    made = small_splits.replicas(tmp_path, 3)
    samples = small_splits.samples(10)
    with Local(tmp_path, in_flight=2) as running:
        answers = list(running.run(samples))
    for sample, answer in zip(samples, answers, strict=True):
        whole = small_splits.answer(made, sample)["y"]
        np.testing.assert_array_equal(answer.outputs["y"], whole)
    assert [one["samples"] for one in running.ended] == [4, 3, 3]


def test_one_run_at_a_time(network: onnx.ModelProto, images: list[Floats], tmp_path: Path) -> None:
    graph = Graph.of(network)
    cut(graph, layout(graph, "rows", (1, 1)), tmp_path / "split", name="small")
    with Local(tmp_path / "split", in_flight=2) as running:
        first, second = running.run(images), running.run(images)
        next(first)
        assert next(second).sample == 0
        with pytest.raises(InputError, match="samples: found others that were asked since"):
            next(first)
        assert [answer.sample for answer in second] == [*range(1, len(images))]


def test_samples_that_the_devices_have(tmp_path: Path) -> None:
    made = small_splits.rows(tmp_path, 2)
    samples = small_splits.samples(2)
    np.save(tmp_path / "samples.npy", np.concatenate(samples))
    with Local(tmp_path, inputs=tmp_path / "samples.npy") as running:
        before = running.totals()
        answers = list(running.go(5))
        after = running.totals()
    for i, answer in enumerate(answers):
        whole = small_splits.answer(made, samples[i % 2])["logits"]
        assert largest_error(answer.outputs["logits"], whole) < 1e-5
    for one, two in zip(before, after, strict=True):
        assert two["samples"] - one["samples"] == 5
        # Five words to begin, and the question for the first totals.
        assert two["received_bytes"]["host"] - one["received_bytes"]["host"] == 5 * 32 + 24


def test_a_run_that_is_given_up_does_not_spoil_the_next(tmp_path: Path) -> None:
    made = small_splits.rows(tmp_path, 2)
    samples = small_splits.samples(6)
    with Local(tmp_path, in_flight=3) as running:
        for _ in range(3):
            answers = running.run(samples)
            next(answers)
        found = list(running.run(samples[::-1]))
    for sample, answer in zip(samples[::-1], found, strict=True):
        whole = small_splits.answer(made, sample)["logits"]
        assert largest_error(answer.outputs["logits"], whole) < 1e-5


@pytest.mark.parametrize("in_flight", [1, 3])
def test_connections_that_break_again_and_again_change_no_answer(
    tmp_path: Path, in_flight: int
) -> None:
    bed = Bed(tmp_path, 3)
    try:
        processes = [
            bed.started(i, in_flight=in_flight, python=[sys.executable, CABLE, str(i), "3000"])
            for i in range(3)
        ]
        samples = small_splits.samples(25)
        with Session(tmp_path, bed.addresses, bed.secret) as session:
            answers = list(session.run(samples))
        assert [answer.sample for answer in answers] == list(range(25))
        for sample, answer in zip(samples, answers, strict=True):
            for name, whole in small_splits.answer(bed.network, sample).items():
                assert largest_error(answer.outputs[name], whole) < 1e-5
        for process in processes:
            process.terminate()
        totals = [json.loads(ended(process)[1]) for process in processes]
        assert sum(one["broken_connections"] for one in totals) > 10
    finally:
        bed.close()


def test_who_passes_connections_on_is_refused(tmp_path: Path) -> None:
    bed = Bed(tmp_path)
    relays = [Relay(place) for place in bed.addresses]
    try:
        for i in range(2):
            bed.started(i)
        places = [relay.address for relay in relays]
        with pytest.raises(InputError) as error:
            Session(tmp_path, places, bed.secret, start_within=5)
        assert str(error.value).endswith(REFUSED)
        with Session(tmp_path, bed.addresses, bed.secret) as session:
            assert len(list(session.run(small_splits.samples(1)))) == 1
    finally:
        bed.close()
        for relay in relays:
            relay.close()


def test_a_device_that_is_killed_and_started_again_goes_on(tmp_path: Path) -> None:
    bed = Bed(tmp_path, 3)
    try:
        processes = [bed.started(i, in_flight=2) for i in range(3)]
        samples = small_splits.samples(30)
        with Session(tmp_path, bed.addresses, bed.secret) as session:
            found = []
            for answer in session.run(samples):
                found.append(answer)
                if answer.sample in (4, 13):
                    victim = 1 if answer.sample == 4 else 0
                    processes[victim].kill()
                    processes[victim].wait()
                    processes[victim] = bed.started(victim, in_flight=2)
            session.end()
        for sample, answer in zip(samples, found, strict=True):
            for name, whole in small_splits.answer(bed.network, sample).items():
                assert largest_error(answer.outputs[name], whole) < 1e-5
        assert [ended(process)[0] for process in processes] == [0, 0, 0]
    finally:
        bed.close()


def test_a_host_that_comes_later_has_the_devices_for_good(tmp_path: Path) -> None:
    bed = Bed(tmp_path)
    try:
        processes = [bed.started(i, in_flight=2) for i in range(2)]
        samples = small_splits.samples(8)
        with (
            Session(tmp_path, bed.addresses, bed.secret) as first,
            Session(tmp_path, bed.addresses, bed.secret) as second,
        ):
            answers = second.run(samples)
            found = [next(answers)]
            for _ in range(2):  # nor does it take them back
                with pytest.raises(InputError, match=rf"^device [01] at .*: {TAKEN}$"):
                    next(first.run(samples))
                found += [next(answers), next(answers)]
            found += answers
            second.end()
        for sample, answer in zip(samples, found, strict=True):
            for name, whole in small_splits.answer(bed.network, sample).items():
                assert largest_error(answer.outputs[name], whole) < 1e-5
        assert [ended(process)[::2] for process in processes] == [(0, ""), (0, "")]
    finally:
        bed.close()


def test_of_hosts_that_come_at_the_same_moment_one_is_left(tmp_path: Path) -> None:
    """Each is answered for its own samples or learns that it has lost; never do all lose."""
    bed = Bed(tmp_path)
    samples = small_splits.samples(12)
    together = Barrier(3)

    def answered(own: int) -> list[Any] | str:
        together.wait()
        try:
            with Session(tmp_path, bed.addresses, bed.secret) as session:
                return [answer.outputs for answer in session.run(samples[own : own + 4])]
        except InputError as error:
            return str(error)

    try:
        for i in range(2):
            bed.started(i, in_flight=2)
        with ThreadPoolExecutor(3) as hosts:
            for _ in range(5):
                found = dict(zip((0, 4, 8), hosts.map(answered, (0, 4, 8)), strict=True))
                lost = [told for told in found.values() if isinstance(told, str)]
                assert len(lost) < 3
                assert all(told.endswith(TAKEN) for told in lost)
                for own, outputs in found.items():
                    if not isinstance(outputs, str):
                        for sample, output in zip(samples[own : own + 4], outputs, strict=True):
                            for name, whole in small_splits.answer(bed.network, sample).items():
                                assert largest_error(output[name], whole) < 1e-5
    finally:
        bed.close()


def test_all_devices_know_a_host_by_the_same_number(tmp_path: Path) -> None:
    """Where one knew it by less, an earlier host could take that one back."""
    bed = Bed(tmp_path)
    try:
        processes = [bed.started(i) for i in range(2)]
        for _ in range(2):
            with Session(tmp_path, bed.addresses, bed.secret) as session:
                list(session.run(small_splits.samples(1)))
        processes[0].kill()
        processes[0].wait()
        bed.started(0)
        with Session(tmp_path, bed.addresses, bed.secret) as session:
            one, two = (known_session(bed, i) for i in range(2))
            assert one == two > 1
            assert len(list(session.run(small_splits.samples(2)))) == 2
    finally:
        bed.close()


def test_a_device_that_dies_is_named(tmp_path: Path) -> None:
    small_splits.rows(tmp_path, 2)
    with Local(tmp_path) as running:
        answers = running.run(small_splits.samples(5))
        next(answers)
        running.processes[1].kill()
        with pytest.raises(InputError, match="device 1: its process has ended with code -9"):
            list(answers)


def test_devices_have_nobody_left_when_the_host_is_killed(tmp_path: Path) -> None:
    small_splits.rows(tmp_path, 2)
    program = (
        "import functools, sys, time\n"
        "from forerun.splitting import running\n"
        f"running.Session = functools.partial(running.Session, start_within={LONG})\n"
        f"with running.Local(sys.argv[1], timeout={ENDLESS}) as devices:\n"
        "    print(*[process.pid for process in devices.processes], flush=True)\n"
        f"    time.sleep({ENDLESS})\n"
    )
    words = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        pids = [int(pid) for pid in host.stdout.readline().split()]
        assert len(pids) == 2
        host.send_signal(signal.SIGKILL)
    wait_for(lambda: not any(map(alive, pids)))


def test_a_device_that_does_not_answer_at_the_start_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forerun.splitting.device.network.time", Ticking(0.02))
    small_splits.rows(tmp_path, 2)
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    with pytest.raises(InputError) as error:
        Session(tmp_path, addresses, b"0" * 16, start_within=0.4)
    assert str(error.value) == (
        f"device 0 at {addresses[0]} has not answered for 0.4 s: Connection refused"
    )


def test_another_secret_is_told_at_once_and_in_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_splits.rows(tmp_path, 2)
    with Local(tmp_path) as running, pytest.raises(InputError) as error:
        Session(tmp_path, running.addresses, b"not the one of the devices", start_within=5)
    told = [
        f"device {i} at {place} {{}}refuses this side, which has {NO_SECRET}"
        for i, place in enumerate(running.addresses)
    ]
    assert str(error.value) == told[0].format("has not answered for 5 s: it ")
    lines = capsys.readouterr().err.splitlines()
    assert sorted(lines) == [f"forerun: {one.format('')}; trying again" for one in told]


def test_devices_of_another_split_are_told_as_such(tmp_path: Path) -> None:
    small_splits.rows(tmp_path / "one", 2)
    small_splits.rows(tmp_path / "two", 2, split="12" * 32)
    secret = new_secret(tmp_path / "secret")
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    package = tmp_path / "two" / "device-0"
    words = device_command(package, addresses, tmp_path / "secret", timeout=LONG)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        one.stdout.readline()
        with pytest.raises(InputError) as error:
            Session(tmp_path / "one", addresses, secret, start_within=5)
        assert str(error.value) == (
            f"device 0 at {addresses[0]} has not answered for 5 s: "
            "it refuses this side, which has a package of another split"
        )
        one.terminate()
        _, errors = one.communicate()
    assert "which says it is the host, has a package of another split; its conn" in errors


def test_a_package_in_the_wrong_place_is_refused(tmp_path: Path) -> None:
    small_splits.rows(tmp_path, 2)
    (tmp_path / "device-0").rename(tmp_path / "kept")
    (tmp_path / "device-1").rename(tmp_path / "device-0")
    (tmp_path / "kept").rename(tmp_path / "device-1")
    with pytest.raises(InputError) as error, Local(tmp_path):
        pass
    assert str(error.value) == (
        f"{tmp_path}/device-0/package.json: found device 1 of 2 of split abababab, "
        "expected device 0 of 2 of split abababab"
    )


def test_a_damaged_weight_file_is_told_with_its_device(tmp_path: Path) -> None:
    small_splits.rows(tmp_path, 2)
    path = tmp_path / "device-1" / "segment-000.onnx"
    path.write_bytes(path.read_bytes()[:-4] + b"\0\0\0\0")
    with pytest.raises(InputError) as error, Local(tmp_path):
        pass
    assert str(error.value) == (
        f"device 1: {path}: damaged: its SHA-256 is not the one in package.json"
    )


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "split.json: found no JSON, expected what"),
        ("[" * 10**5, "split.json: found no JSON, expected what"),
        ('{"format": 3}', "split.json: found another format, expected 1: made by another"),
        ('{"format": 1}', "split.json: found no 'split', expected what"),
    ],
)
def test_a_folder_that_is_no_split_is_refused(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "split.json").write_text(content)
    with pytest.raises(InputError) as error, Local(tmp_path):
        pass
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"devices": "2"}, "split.json: devices: found 2, expected 1 to 1024"),
        ({"devices": 0}, "split.json: devices: found 0, expected 1 to 1024"),
        ({"devices": 10**9}, "split.json: devices: found 1000000000, expected 1 to 1024"),
        ({"kind": 3}, "split.json: found no 'kind', expected what"),
        ({"inputs": [1]}, "split.json: inputs: found [1], expected a table of shapes"),
        ({"inputs": {}}, "device-0/package.json: inputs: found image, expected a part of an input"),
        ({"outputs": {"y": [1, 3]}}, "device-0/package.json: outputs: found y, expected a part of"),
        (
            {"inputs": {"image": [1, 2**20, 2**20]}},
            "inputs: image: found [1, 1048576, 1048576], expected [1, channels, rows, columns]",
        ),
        ({"inputs": {"image": [1, 2, 6, 4]}}, "inputs: found image, expected a part of an input"),
        ({"inputs": {"image": [1, 2, 3, 5]}}, "inputs: found image, expected a part of an input"),
        ({"inputs": {"image": [1, 1, 6, 5]}}, "inputs: found image, expected a part of an input"),
        ({"inputs": {"image": "x"}}, "inputs: image: found x, expected [1, channels, rows"),
    ],
)
def test_a_split_that_does_not_fit_its_packages_is_refused(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    small_splits.rows(tmp_path, 2)
    path = tmp_path / "split.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError) as error, Local(tmp_path):
        pass
    assert told in str(error.value)


def test_a_sample_of_another_shape_is_refused(tmp_path: Path) -> None:
    small_splits.rows(tmp_path, 2)
    with Local(tmp_path) as running:
        with pytest.raises(InputError, match=r"image: found a tensor of \[1, 2, 3\], expected"):
            next(running.run([np.zeros((1, 2, 3), np.float32)]))
        with pytest.raises(InputError, match="sample: found picture, expected a tensor for each"):
            next(running.run([{"picture": np.zeros((1, 2, 6, 5), np.float32)}]))
        image = small_splits.samples(1)[0]
        one, two = (next(running.run([sample])) for sample in (image[0], {"image": image}))
        assert (one.outputs["y"] == two.outputs["y"]).all()


def test_a_sample_may_be_written_to_after_it_was_given(tmp_path: Path) -> None:
    made = small_splits.replicas(tmp_path, 1)
    image = small_splits.samples(1)[0]
    with Local(tmp_path, in_flight=4) as running:
        answers = running.run(_filled(image, value) for value in range(8))
        for value, answer in enumerate(answers):
            whole = small_splits.answer(made, np.full_like(image, value))["y"]
            np.testing.assert_array_equal(answer.outputs["y"], whole)


def _filled(image: Floats, value: float) -> Floats:
    image.fill(value)
    return image


def test_secrets_are_for_their_user_alone(tmp_path: Path) -> None:
    secret = new_secret(tmp_path / "secret")
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    assert len(secret) == 64
    assert secret not in {new_secret(tmp_path / "other")}
    with pytest.raises(FileExistsError):
        new_secret(tmp_path / "secret")


def test_no_secret_is_on_a_command_line(tmp_path: Path) -> None:
    small_splits.rows(tmp_path, 2)
    with Local(tmp_path) as running:
        for process in running.processes:
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
            path = Path(os.fsdecode(words[words.index(b"--secret-file") + 1]))
            assert path.read_bytes().strip() not in b" ".join(words)


def test_devices_may_be_of_different_speed(tmp_path: Path) -> None:
    small_splits.rows(tmp_path, 2)
    with Local(tmp_path, speed=[0.5, 0.25]) as running:
        list(running.run(small_splits.samples(2)))
    for one, speed in zip(running.ended, (0.5, 0.25), strict=True):
        assert one["paced_seconds"] == pytest.approx(one["computing_seconds"] / speed)


def test_totals_are_json(tmp_path: Path) -> None:
    small_splits.rows(tmp_path, 2)
    with Local(tmp_path) as running:
        list(running.run(small_splits.samples(1)))
        totals = running.totals()
    assert json.loads(json.dumps(totals)) == totals
    assert [one["device"] for one in totals] == [0, 1]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{}",
        b"[1]",
        b"[" * 60_000,
        b'{"samples": ' + b"9" * 5000 + b"}",
        json.dumps(TOTALS | {"samples": "3"}).encode(),
        json.dumps(TOTALS | {"seconds": math.nan}).encode(),
        json.dumps(TOTALS | {"sent_bytes": 3}).encode(),
        json.dumps(TOTALS | {"sent_bytes": {"host": None}}).encode(),
        json.dumps(TOTALS | {"memory_bytes": 10**400}).encode(),
    ],
)
def test_totals_that_are_none_are_one_line(tmp_path: Path, payload: bytes) -> None:
    bed = Bed(tmp_path, 1)
    impostor = Impostor(bed, 0, what(FRAME_OF_TOTALS), payload)
    try:
        with (
            Session(tmp_path, bed.addresses, bed.secret) as session,
            pytest.raises(InputError, match=r"^device 0 at .* sends totals that are no"),
        ):
            session.totals()
    finally:
        impostor.close()


def test_totals_of_the_right_kind_are_taken(tmp_path: Path) -> None:
    bed = Bed(tmp_path, 1)
    impostor = Impostor(bed, 0, what(FRAME_OF_TOTALS), json.dumps(TOTALS).encode())
    try:
        with Session(tmp_path, bed.addresses, bed.secret) as session:
            assert session.totals() == [TOTALS]
    finally:
        impostor.close()


def test_devices_that_owe_outputs_for_too_long_are_named(tmp_path: Path) -> None:
    """They are there, and so are their connections: only nothing comes."""
    bed = Bed(tmp_path)
    try:
        processes = [bed.started(i) for i in range(2)]
        with Session(tmp_path, bed.addresses, bed.secret, timeout=2) as session:
            for process in processes:
                process.send_signal(signal.SIGSTOP)
            names = ", ".join(f"device {i} at {place}" for i, place in enumerate(bed.addresses))
            with pytest.raises(InputError) as error:
                next(session.run(small_splits.samples(1)))
            assert str(error.value) == f"{names}: nothing has come for 2 s"
            with pytest.raises(InputError, match="nothing has come for 2 s"):
                session.totals()
    finally:
        bed.close()


def test_a_session_that_none_could_follow_is_not_begun(tmp_path: Path) -> None:
    bed = Bed(tmp_path)
    try:
        for i in range(2):
            bed.started(i)
        with greeted(bed, 0) as connection:
            sample = (2**32 - 2) << 32
            connection.sendall(HEADER.pack(what(INPUT), sample, 160, 0) + bytes(160))
            with pytest.raises(InputError, match="session: found 4294967295, expected one below"):
                Session(tmp_path, bed.addresses, bed.secret)
    finally:
        bed.close()
