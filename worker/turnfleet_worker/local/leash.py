"""Run a command that does not outlive the process that asked for it: `python leash.py PARENT command…`.

A `turnfleet demo` that is ended by SIGKILL cannot clean up after itself. On Linux the kernel can do it: a process may
ask for a signal when its parent dies, and keeps that wish when it becomes another program. So this module asks, then
becomes the command; it costs no process of its own. Elsewhere it only becomes the command. It is run as a file, not as
a module of its package, because importing the package would cost more than everything else it does.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
USAGE_ERROR = 2


def main(arguments: list[str]) -> None:
    """Tie this process to the parent with pid `arguments[0]`, then become the rest of `arguments`."""
    parent, command = int(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        # The parent may have died before the wish was made: nobody would send the signal then.
        if os.getppid() != parent:
            sys.exit(USAGE_ERROR)
    os.execvp(command[0], command)  # noqa: S606 - becoming the given command is what a leash is for


if __name__ == "__main__":
    main(sys.argv[1:])
