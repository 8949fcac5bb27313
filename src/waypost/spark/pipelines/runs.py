"""Run a stream in this process, without Spark, up to the present end of its queues.

The steps are those of Spark with the trigger availableNow, and so is the checkpoint: a batch is noted before it is
worked on, and again when it is done, and only then the stream removes its messages. Spark can continue the query, and
this process can continue a query of Spark.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from waypost.spark.pipelines.checkpoints import Checkpoint
from waypost.spark.stream_ranges import RangeStream

# The parts of a batch, each as batches of Arrow, and the number of the batch.
Each = Callable[[Iterable[Iterator[Any]], int], None]


def run_available(stream: RangeStream, checkpoint: Checkpoint, each: Each) -> None:
    """Call `each` for a batch that was not finished, and for the new batches. The caller holds the checkpoint."""
    stream.prepareForTriggerAvailableNow()
    progress, limit = checkpoint.progress(), stream.getDefaultReadLimit()
    number, start = 0, stream.initialOffset() if progress is None or progress.start is None else progress.start
    if progress is not None:
        number = progress.number
        if not progress.is_done:
            each(_parts(stream, start, progress.end), number)
            checkpoint.finish(number)
        number, start = number + 1, progress.end
    # To ask for the next batch removes the messages of the last one.
    while (end := stream.latestOffset(start, limit)) != start:
        checkpoint.begin(number, end)
        each(_parts(stream, start, end), number)
        checkpoint.finish(number)
        number, start = number + 1, end


def _parts(stream: RangeStream, start: Any, end: Any) -> Iterator[Iterator[Any]]:
    for part in stream.partitions(start, end):
        yield stream.read(part)
