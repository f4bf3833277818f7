"""A program in a terminal: what it draws, and keys for it."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

import pyte


class Terminal:
    def __init__(
        self, command: list[str], variables: dict[str, str], columns: int = 80, lines: int = 24
    ) -> None:
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.bytes = b""
        self.status: int | None = None  # as waitstatus_to_exitcode() tells it, once it has ended
        self._child, self._master = pty.fork()
        if self._child == 0:
            os.execvpe(command[0], command, variables)
        self._size(columns, lines)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is None:
            os.kill(self._child, signal.SIGKILL)
            os.waitpid(self._child, 0)
        os.close(self._master)

    def _size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns: int, lines: int) -> None:
        self.screen.resize(lines, columns)
        self._size(columns, lines)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def text(self) -> str:
        return "\n".join(self.screen.display)

    def _read(self, seconds: float) -> bool:
        """False: it has ended."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return True
        try:
            got = os.read(self._master, 65536)
        except OSError:  # how Linux says that nobody has the other end any more
            got = b""
        self.bytes += got
        self._stream.feed(got)
        return bool(got)

    def wait_for(self, text: str, seconds: float = 60) -> str:
        """The screen once the text is on it, and all that is drawn with it."""
        end = time.monotonic() + seconds
        while text not in self.text():
            assert time.monotonic() < end, f"no {text!r} on:\n{self.text()}"
            assert self._read(0.2) or text in self.text(), f"ended without {text!r}:\n{self.text()}"
        return self.settled()

    def settled(self, quiet_seconds: float = 0.1) -> str:
        """The screen once nothing has been drawn for so long; a second at most."""
        end = time.monotonic() + 1
        before = -1
        while before != len(self.bytes) and time.monotonic() < end:
            before = len(self.bytes)
            self._read(quiet_seconds)
        return self.text()

    def wait_for_end(self, seconds: float = 60) -> int:
        end = time.monotonic() + seconds
        while self._read(0.2):
            assert time.monotonic() < end, f"did not end:\n{self.text()}"
        self.status = os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])
        return self.status
