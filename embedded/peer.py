"""Which user of this machine is at the other end of a loopback connection.

A port on the loopback interface is open to every user of the machine, and whoever may submit a
job here runs programs as the stack's owner. The kernel's table of connections tells users apart.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

TABLE = Path("/proc/net/tcp")


def uid_of_peer(peer_port: int, own_port: int, table: Path = TABLE) -> int | None:
    """Return the user at the other end of a connection to 127.0.0.1, or None if it can't be told.

    Args:
        peer_port: The port of the other end.
        own_port: The port of this end.
        table: The kernel's table of IPv4 connections.
    """
    wanted = (_written("127.0.0.1", peer_port), _written("127.0.0.1", own_port))
    try:
        lines = table.read_text(encoding="ascii").splitlines()[1:]
    except (OSError, UnicodeDecodeError):
        return None
    for line in lines:
        fields = line.split()
        if len(fields) > 7 and (fields[1], fields[2]) == wanted and fields[7].isdigit():
            return int(fields[7])
    return None


def _written(address: str, port: int) -> str:
    """Return an end of a connection as the kernel writes it, in its own byte order."""
    (number,) = struct.unpack("=I", socket.inet_aton(address))
    return f"{number:08X}:{port:04X}"


def can_tell() -> bool:
    """Return whether this machine lets us tell users apart, by trying it on ourselves."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        own = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", own), timeout=2) as client:
            return uid_of_peer(client.getsockname()[1], own) == os.getuid()
