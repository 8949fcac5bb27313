"""Python loads this module at its start where this folder is on PYTHONPATH: fail points for the chaos campaign."""

import os

if "WAYPOST_CHAOS" in os.environ:
    from tests.crash.chaos.wrapping import install

    install()
