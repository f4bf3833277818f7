"""A program in a terminal: what it draws, and keys for it."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pyte

HUNG_SECONDS = 120  # then it hangs: a passing test waits for what is drawn


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

    def wait_for(self, text: str, seconds: float = HUNG_SECONDS) -> str:
        """The screen once the text is on it, and all that is drawn with it."""
        self.wait_until(lambda screen: text in screen, repr(text), seconds)
        return self.settled()

    def wait_until(
        self, shows: Callable[[str], bool], what: str, seconds: float = HUNG_SECONDS
    ) -> str:
        """The first screen that shows it: a frame may be read in parts."""
        end = time.monotonic() + seconds
        while not shows(screen := self.text()):
            assert time.monotonic() < end, f"no {what} on:\n{screen}"
            assert self._read(0.2) or shows(self.text()), f"ended without {what}:\n{screen}"
        return screen

    def settled(self) -> str:
        """The screen once the program sleeps or has ended: its frame is complete."""
        end = time.monotonic() + HUNG_SECONDS
        while time.monotonic() < end:
            waits, before = self._waits(), len(self.bytes)
            self._read(0.02)
            if waits and len(self.bytes) == before:
                break
        return self.text()

    def _waits(self) -> bool:
        """Does the program sleep, or has it ended? While it draws it is runnable."""
        stat = Path(f"/proc/{self._child}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] in ("S", "Z")

    def wait_for_end(self, seconds: float = HUNG_SECONDS) -> int:
        end = time.monotonic() + seconds
        while self._read(0.2):
            assert time.monotonic() < end, f"did not end:\n{self.text()}"
        self.status = os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])
        return self.status
