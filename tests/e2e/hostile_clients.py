"""What may come at an HTTP server from those who are in a hurry, wrong, or mean it harm."""

import random
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager

Address = tuple[str, int]

GOOD = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


def broken_request(chance: random.Random) -> bytes:
    """Malformed, oversized, or what nobody may ask: over TCP, without a token."""
    kind = chance.randrange(10)
    if kind == 0:
        return chance.randbytes(chance.randrange(300))
    if kind == 1:
        text = bytearray(GOOD)
        for _ in range(4):
            text[chance.randrange(len(text))] = chance.randrange(256)
        return bytes(text)
    if kind == 2:
        return GOOD[: chance.randrange(len(GOOD))]
    if kind == 3:
        return GOOD[:-2] + b"X-A: b\r\n" * chance.randrange(3000) + b"\r\n"
    if kind == 4:
        return b"GET /" + b"a" * chance.randrange(20_000) + b" HTTP/1.1\r\nHost: a\r\n\r\n"
    if kind == 5:
        return b"GET /..%2f..%2fetc/passwd?rank=../x HTTP/1.1\r\nHost: localhost\r\n\r\n"
    if kind == 6:
        length = str(chance.randrange(1 << 40)).encode()
        return (
            b"POST /v1/budget HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + length
        ) + b"\r\n\r\nxxx"
    if kind == 7:
        body = b'{"paused":true}'
        head = b"POST /v1/pause HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
        return head % len(body) + body
    if kind == 8:
        return b"GET /v1/status HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    return GOOD * 20  # none of whose answers is read


def send_broken(address: Address, count: int, seed: int) -> set[str]:
    """Each over a connection of its own; of every twentieth the answer's first line is read."""
    chance = random.Random(seed)
    seen = set()
    for index in range(count):
        with socket.create_connection(address, timeout=30) as client:
            try:
                client.sendall(broken_request(chance))
                if index % 20 == 0:
                    client.shutdown(socket.SHUT_WR)
                    seen.add(client.recv(4096).split(b"\r\n")[0].decode("latin1"))
            except OSError:  # closed before it had said all
                seen.add("")
    return seen


@contextmanager
def idle_connections(address: Address, count: int) -> Iterator[None]:
    """Half of them silent, half in the midst of a header, for as long as the context lasts."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * count + 1024), hard))
    clients = []
    try:
        for index in range(count):
            clients.append(socket.create_connection(address, timeout=30))
            if index % 2:
                clients[-1].sendall(b"GET /metrics HTTP/1.1\r\nHost")
        yield
    finally:
        for client in clients:
            client.close()
