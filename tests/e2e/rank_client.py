"""Asks a rank over its Unix socket, as `curl --unix-socket` does."""

import http.client
import json
import socket
from pathlib import Path

TIMEOUT_SECONDS = 90


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=TIMEOUT_SECONDS)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_SECONDS)
        self.sock.connect(str(self.path))


def send(path: Path, method: str, target: str, text: str | None) -> tuple[int, dict]:
    """`text` goes as it is."""
    connection = UnixConnection(path)
    try:
        connection.request(method, target, text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def ask(path: Path, method: str, target: str, body: object = None) -> tuple[int, dict]:
    return send(path, method, target, None if body is None else json.dumps(body))
