"""The process that Spark's Python workers are forked from, as spark.python.daemon.module of a local session.

It has imported what they need. Spark's own has not, so that there every worker imports it anew, which takes it longer
than reading 100,000 messages, and Spark ends workers that had nothing to do for a minute.
"""

import gc
import sys
from importlib import import_module
from typing import Final

from pyspark.daemon import manager

_NEEDED: Final = ("waypost.spark.source", "waypost.spark.origins.daemon", "waypost.arrow.decoder")


def main() -> None:
    """Spark gives the name of the module that a worker runs."""
    for name in (*sys.argv[1:2], *_NEEDED):
        import_module(name)
    # Or looking for garbage would copy the pages that all workers share.
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
