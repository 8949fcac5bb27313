"""The process that Spark's Python workers are forked from, as spark.python.daemon.module of a local session.

It has already imported the modules that workers need. With Spark's default process, every worker imports them again,
which takes longer than reading 100,000 messages, and Spark ends workers that were idle for a minute.
"""

import gc
import sys
from importlib import import_module
from typing import Final

from pyspark.daemon import manager

_NEEDED: Final = ("waypost.spark.source", "waypost.spark.origins", "waypost.arrow.decoder")


def main() -> None:
    """Start the process. Spark passes the name of the module that a worker runs."""
    for name in (*sys.argv[1:2], *_NEEDED):
        import_module(name)
    # Otherwise garbage collection would copy the pages that all workers share.
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
