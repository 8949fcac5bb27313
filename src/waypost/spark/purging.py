"""Remove messages from a queue after they were read and are safe elsewhere."""

from contextlib import closing

from waypost.api.bulk import RemoveRange
from waypost.errors import InvalidParameter
from waypost.spark.options import read_options
from waypost.spark.origins import open_origin


def purge(queue: str, upto: int, *, epoch: str = "", **options: str) -> int:
    """Remove the messages of `queue` up to the arrival number `upto`, and return their number.

        messages = spark.read.format("msmq").option("queue", "orders;journal").load()
        messages.write.parquet("archive")
        waypost.spark.purge("orders;journal", messages.agg({"seq": "max"}).first()[0])

    A repeated call changes nothing. Locked messages stay in the queue. `options` are the options of the format that
    locate the queue, such as server and tokenFile. If you pass the `epoch` from an offset, and the queue was deleted
    and created again since, the call removes nothing from the new queue.
    """
    if not isinstance(upto, int) or upto < 0:
        raise InvalidParameter(f"`upto` must be the arrival number (seq) of the last message to remove, not {upto!r}")
    with closing(open_origin(read_options({"queue": queue, **options}).endpoint)) as origin:
        return origin.remove(RemoveRange(name=queue, up_to=upto, epoch=epoch)).count
