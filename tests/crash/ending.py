"""A program that does what it is told and writes at its end, for tests/crash/test_forks.py."""

import atexit
import sys

if __name__ == "__main__":
    atexit.register(print, "at the end")
    exec(sys.argv[1])
