"""A device on a bad cable: each of its connections is cut after some bytes.

`python cut_connections.py SEED MOST PROGRAM WORD…`, with the words of a device. Connections are cut
in its process, not on their way: whoever passes one on is refused.
"""

import random
import socket
import struct
import sys
from collections.abc import Iterable
from typing import Any

from forerun.splitting.device.command import main


class Cable(socket.socket):
    """Sends and receives some bytes; then it is cut, and what is on its way is lost."""

    chance = random.Random(0)
    most = 0

    def __init__(self, *words: Any, **named: Any) -> None:
        super().__init__(*words, **named)
        self.room = self.chance.randrange(self.most)

    def send(self, data: Any, *_: Any) -> int:
        sent = super().send(bytes(data)[: self.room + 1])
        self._spend(sent)
        return sent

    def sendmsg(self, parts: Iterable[Any], *_: Any) -> int:
        return self.send(b"".join(parts))

    def recv(self, size: int, *_: Any) -> bytes:
        data = super().recv(size)
        self._spend(len(data))
        return data

    def recv_into(self, place: Any, *_: Any) -> int:
        count = super().recv_into(place)
        self._spend(count)
        return count

    def _spend(self, count: int) -> None:
        self.room -= count
        if self.room < 0:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raise ConnectionResetError("cut")


if __name__ == "__main__":
    Cable.chance, Cable.most = random.Random(int(sys.argv[1])), int(sys.argv[2])
    socket.socket = Cable  # type: ignore[misc]  # also what `accept` makes
    sys.exit(main(sys.argv[4:]))
