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


def ask(path: Path, method: str, target: str, body: object = None) -> tuple[int, dict]:
    connection = UnixConnection(path)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, target, text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()
