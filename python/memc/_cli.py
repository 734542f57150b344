"""The command `memc`, run in this process."""

import os
import signal
import sys

from memc import _memc


def main():
    """Runs the command with the arguments of the process; returns its exit code."""
    # The command looks for ONNX Runtime among the packages of this interpreter.
    os.environ.setdefault("MEMC_PYTHON", sys.executable)
    # The command has no clean-up that Ctrl-C must wait for: partial files have other names.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _memc.run(["memc", *sys.argv[1:]])
