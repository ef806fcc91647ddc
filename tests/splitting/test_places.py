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


def test_what_has_no_boards() -> None:
    with pytest.raises(InputError, match="laptop: found no boards"):
        places_of(Infrastructure.load(Path("laptop")))
