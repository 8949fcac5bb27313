"""A process that writes to the store in the folder it is given, and prints each token when it is reported.

Batch n puts the message n and sets the counter "last" to n; every tenth batch deletes the messages before it as well.
It ends when it is killed.
"""

import os
import sys
from itertools import count

from waypost.store.keys import message_key
from waypost.store.lmdb import LmdbStore
from waypost.store.port import Batch, Table

AHEAD = 20


def main(folder: str) -> None:
    store = LmdbStore(folder)
    last = store.get(Table.COUNTERS, b"last")
    first = int(last) + 1 if last else 0
    reported = first
    for number in count(first):
        batch = Batch()
        batch.put(Table.MESSAGES, message_key(1, number), b"%d:" % number + bytes(number * 37 % 6000))
        batch.put(Table.COUNTERS, b"last", b"%d" % number)
        if number % 10 == 0:
            batch.delete_range(Table.MESSAGES, message_key(1, 0), message_key(1, number))
        store.submit(batch, number)
        while number - reported >= AHEAD:
            store.wait()
            for token in store.poll():
                os.write(1, b"%d\n" % token)
                reported = token + 1


if __name__ == "__main__":
    main(sys.argv[1])
