"""`python -m ebbtide`, and the command `ebbtide`: the program that lies beside this file."""

import os
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).with_name("ebbtide")
    try:
        os.execv(program, ["ebbtide", *sys.argv[1:]])
    except OSError as error:
        raise SystemExit(
            f"ebbtide: the program {program} cannot be started: {error.strerror}."
            " Install ebbtide again, or build it: ./dev build"
        ) from None


if __name__ == "__main__":
    main()
