"""Runs the script that is named, with its arguments, where the kernel refuses any socket."""

import ctypes
import errno
import runpy
import struct
import sys


def statement(operation: int, if_true: int, if_not: int, value: int) -> bytes:
    return struct.pack("HBBI", operation, if_true, if_not, value)


# Load the system call's number; 41, socket(), gives EPERM; all others go on (seccomp(2), x86-64).
statements = ctypes.create_string_buffer(
    statement(0x20, 0, 0, 0)
    + statement(0x15, 0, 1, 41)
    + statement(0x06, 0, 0, 0x00050000 | errno.EPERM)
    + statement(0x06, 0, 0, 0x7FFF0000)
)


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


program = Program(4, ctypes.cast(statements, ctypes.c_void_p))
prctl = ctypes.CDLL(None).prctl
assert prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
assert prctl(22, 2, ctypes.byref(program), 0, 0) == 0  # PR_SET_SECCOMP
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
