import re
from pathlib import Path

import pytest

from forerun.errors import InputError
from forerun.infrastructure import Infrastructure
from forerun.splitting.places import PORT, addressed, places_of

BOARDS = """
name: shelf
boards:
  pi:
    count: 2
    processors: {microarchitecture: cortex_a72, cores: 4}
    memory: 1 GiB
    link: {bandwidth: 100 Mbit/s}
    speed: 0.2
    user: ada
    directory: forerun
    addresses: [pi1.local, "10.0.0.3:7000"]
  old:
    count: 1
    processors: {microarchitecture: cortex_a72, cores: 4}
    memory: 1 GiB
    link: {bandwidth: 100 Mbit/s}
    ADDRESS
"""


def shelf(folder: Path, address: str) -> Infrastructure:
    (folder / "boards.yaml").write_text(BOARDS.replace("ADDRESS", address))
    return Infrastructure.load(folder / "boards.yaml")


def test_every_board_is_a_device_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = places_of(shelf(tmp_path, 'addresses: ["[fe80::1]"]'))
    assert [(one.name, one.speed) for one in found] == [("pi-0", 0.2), ("pi-1", 0.2), ("old", 1.0)]
    assert [one.address for one in found] == [
        f"pi1.local:{PORT}",
        "10.0.0.3:7000",
        f"[fe80::1]:{PORT}",
    ]
    assert [one.host for one in found] == ["pi1.local", "10.0.0.3", "fe80::1"]
    assert (found[0].user, found[0].directory) == ("ada", "forerun")


def test_devices_need_boards_with_addresses(tmp_path: Path) -> None:
    here = shelf(tmp_path, "model: dusty")
    assert len(addressed(here, 2)) == 2
    with pytest.raises(InputError, match="shelf, old: found no address"):
        addressed(here, 3)
    with pytest.raises(InputError, match="shelf: found 3 boards, expected 4: one a device"):
        addressed(here, 4)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["old", "pi-1"], ["old", "pi-1"]),  # in the order in which they are named
        (["pi"], ["pi-0", "pi-1"]),
        (["pi-1", "pi"], ["pi-1", "pi-0"]),
        ([], ["pi-0", "pi-1"]),
    ],
)
def test_boards_are_chosen_by_name_or_kind(
    tmp_path: Path, names: list[str], found: list[str]
) -> None:
    here = shelf(tmp_path, "addresses: [10.0.0.4]")
    assert [place.name for place in addressed(here, 2, names)] == found


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["pi-2"], "--boards: found pi-2, expected one of pi (pi-0 to pi-1), old"),
        (["old"], "--boards: found 1 boards, expected 2: one a device"),
        (["old", "old"], "--boards: found 1 boards, expected 2: one a device"),
        (["pi", "old"], "--boards: found old, expected no more: there are 2 devices"),
    ],
)
def test_names_that_are_no_boards_for_the_devices(
    tmp_path: Path, names: list[str], said: str
) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        addressed(shelf(tmp_path, "addresses: [10.0.0.4]"), 2, names)


def test_what_has_no_boards() -> None:
    with pytest.raises(InputError, match="laptop: found no boards"):
        places_of(Infrastructure.load(Path("laptop")))


def test_a_name_of_several_boards_is_none(tmp_path: Path) -> None:
    text = BOARDS.replace("  old:", "  pi-0:").replace("ADDRESS", "addresses: [10.0.0.9]")
    (tmp_path / "boards.yaml").write_text(text)
    here = Infrastructure.load(tmp_path / "boards.yaml")
    with pytest.raises(InputError, match="--boards: found pi-0, expected a name that one board"):
        addressed(here, 1, ["pi-0"])
