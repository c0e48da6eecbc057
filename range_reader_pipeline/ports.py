"""A TCP port to listen on, taken before anything says that it answers there; without a traceback where it cannot be had.

As a program it says whether the port of ``make ui`` is free, because Dagster tells that of a taken one by a traceback.
"""

import errno
import socket
import sys
from typing import Final

MAX_PORT: Final = 2**16 - 1


def bound_socket(host: str, port: int, *, knob: str) -> socket.socket:
    """Return a socket that has the port and does not listen yet; the caller closes it.

    Args:
        host: address of this machine.
        port: 1..65535.
        knob: what a person types to choose another port.

    Raises:
        ValueError: somebody else has it, or this process may not; says what to do.
    """
    taken = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, port))
    except OSError as error:
        taken.close()
        if error.errno == errno.EADDRINUSE:
            msg = f"port {port} is taken; {knob} takes another"
        elif error.errno == errno.EACCES:
            msg = f"port {port} is not for this user; {knob} takes another, such as one above 1023"
        else:
            msg = f"{host}:{port} cannot be listened on ({error.strerror or error}): expected an address of this machine"
        raise ValueError(msg) from error
    return taken


def main() -> None:
    """Exit with 1 and one line where the port given as the only argument cannot be had on the loopback interface."""
    text = sys.argv[1]
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) <= MAX_PORT:
        sys.exit(f"PORT: expected a number in 1..{MAX_PORT}, got {text!r}")
    try:
        bound_socket("127.0.0.1", int(text), knob="PORT=<n>").close()
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
