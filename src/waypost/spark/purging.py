"""To take messages out of a queue when what was read of them is safe somewhere else."""

from contextlib import closing

from waypost.api.bulk import RemoveRange
from waypost.errors import InvalidParameter
from waypost.spark.options import read_options
from waypost.spark.origins import open_origin


def purge(queue: str, upto: int, *, epoch: str = "", **options: str) -> int:
    """Remove the messages of `queue` up to the arrival number `upto`, and return how many that were.

        messages = spark.read.format("msmq").option("queue", "orders;journal").load()
        messages.write.parquet("archive")
        waypost.spark.purge("orders;journal", messages.agg({"seq": "max"}).first()[0])

    To do it again changes nothing. What a reader has locked stays. `options` are those of the format that tell where
    the queue is, such as server and tokenFile. With an `epoch`, as offsets have it, a queue that was created again is
    left alone.
    """
    if not isinstance(upto, int) or upto < 0:
        raise InvalidParameter(f"upto is the arrival number (seq) of the last message to remove, not {upto!r}")
    endpoint = read_options({"queue": queue, **options}).endpoint
    if endpoint.kind == "store":
        raise InvalidParameter("a store is only read; give the option server to remove messages")
    with closing(open_origin(endpoint)) as origin:
        return origin.remove(RemoveRange(name=queue, up_to=upto, epoch=epoch))
