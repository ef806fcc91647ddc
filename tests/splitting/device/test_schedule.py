from pathlib import Path

import small_splits

from forerun.splitting.device.links import DATA, OUTPUT
from forerun.splitting.device.reading import read_program
from forerun.splitting.device.schedule import Schedule, Target
from forerun.splitting.device.wire import Size


def test_what_follows_from_what(tmp_path: Path) -> None:
    small_splits.rows(tmp_path, 2)
    schedule = Schedule(read_program(tmp_path / "device-0"))
    assert schedule.names == ["x", "a", "b", "y", "p", "t"]
    assert schedule.writers == [1, 1, 2, 1, 1, 2]
    assert schedule.is_sum == [False] * 5 + [True]
    assert schedule.segment_needs == [1, 1, 1]
    assert schedule.to_compute == [[0], [], [1], [2], [], []]
    assert schedule.to_copy == [[], [0], [], [], [1], []]
    assert schedule.copied_to == [2, 5]
    assert [schedule.sizes(one.parts) for one in schedule.arrivals] == [
        [Size(4, 5)],
        [Size(5, 1)],
        [Size(2, 20)],
    ]
    assert list(schedule.inputs) == [2]
    assert schedule.work == 3 + 4


def test_the_same_parts_for_several_devices_are_put_together_once(tmp_path: Path) -> None:
    box = [[0, 2, 1], [0, 6]]
    packages = []
    for i in range(3):
        one = small_splits.Package(i, 3, "ab" * 32)
        one.buffers(x=(1, 2, 6, 5))
        one.takes("image", "x", box)
        packages.append(one)
    packages[0].send(1, 1, ("x", box))
    packages[0].send(1, 2, ("x", box))
    packages[0].gives("y", "x", box)
    dims = (1, 2, 6, 5)
    small_splits.write_split(tmp_path, "ab" * 32, packages, {"image": dims}, {"y": dims})
    schedule = Schedule(read_program(tmp_path / "device-0"))
    assert [post.targets for post in schedule.posts] == [
        (Target(1, DATA, 1), Target(2, DATA, 1)),
        (Target(3, OUTPUT, 0),),
    ]


def test_what_several_posts_take_of_one_buffer(tmp_path: Path) -> None:
    rows = [0, 6]
    packages = []
    for i in range(3):
        one = small_splits.Package(i, 3, "ab" * 32)
        one.buffers(x=(1, 3, 6, 5), w=(1, 9, 6, 5))
        one.takes("image", "x", [[0, 3, 1], rows])
        one.takes("wide", "w", [[0, 9, 1], rows])
        packages.append(one)
    packages[0].send(1, 1, ("x", [[1, 3, 3], rows]))
    packages[0].send(1, 2, ("x", [[2, 3, 3], rows]))
    packages[0].send(2, 1, ("w", [[0, 1, 1], rows]))  # few of its channels
    packages[0].send(2, 2, ("w", [[1, 2, 1], rows]))
    packages[0].gives("y", "w", [[0, 9, 1], rows])
    small, wide = (1, 3, 6, 5), (1, 9, 6, 5)
    given = {"image": small, "wide": wide}
    small_splits.write_split(tmp_path, "ab" * 32, packages, given, {"y": wide})
    assert Schedule(read_program(tmp_path / "device-0")).shared() == {"x"}
