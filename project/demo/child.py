"""`python child.py PARENT COMMAND …`: become a command that ends when the process PARENT does, however that ends.

A file to be run by its path, with nothing imported but the standard library: it stands between the demo and each of its
processes. Linux sends the signal; elsewhere a demo that is killed with SIGKILL leaves its processes behind.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(sys.argv[1]):
            sys.exit("the parent has ended already")
    os.execvp(sys.argv[2], sys.argv[2:])
