"""The content of the folder after the kills, found by a new process that empties it.

python -m tests.crash.inventory FOLDER
"""

import json
import sys
from collections import Counter
from typing import Any

import waypost
from tests.crash.bodies import parse
from tests.crash.load import create_queues, queues

JOURNAL = "plain;journal"
SOURCE_JOURNAL = "system$;journal"
DEAD_LETTERS = ("system$;deadletter", "system$;deadxact")


def take(manager: waypost.Manager) -> dict[str, Any]:
    """The messages of every queue in their order, and what is wrong with them by themselves."""
    problems: list[str] = []
    found = {JOURNAL: look(manager, JOURNAL, problems), SOURCE_JOURNAL: look(manager, SOURCE_JOURNAL, problems)}
    for name in (name for name, _ in queues()):
        found[name] = look(manager, name, problems)
        drained = [entry(message) for message in drain(manager.queue(name))]
        if drained != found[name]:
            problems.append(f"{name}: what is received is not what can be looked at")
        if look(manager, name, problems):
            problems.append(f"{name}: there are messages in it after the last was received")
    copies = names(look(manager, JOURNAL, problems)) - names(found[JOURNAL])
    if copies != names(found["plain"]):
        problems.append("plain: the journal did not get exactly what was received")
    for name in DEAD_LETTERS:
        if look(manager, name, problems):
            problems.append(f"{name} has messages, but nothing has expired")
    for name in (JOURNAL, SOURCE_JOURNAL):
        manager.queue(name).purge()
        if look(manager, name, problems):
            problems.append(f"{name}: a purge left messages")
    return {"queues": found, "problems": problems}


def look(manager: waypost.Manager, name: str, problems: list[str]) -> list[list[Any]]:
    return look_into(manager.queue(name), name, problems)


def look_into(queue: waypost.Queue, name: str, problems: list[str]) -> list[list[Any]]:
    messages = list(queue.browse())
    info = queue.info()
    counts = (info.message_count, info.bytes)
    contents = (len(messages), sum(message.size for message in messages))
    if counts != contents:
        problems.append(f"{name}: counts {counts} messages and bytes and has {contents}")
    order = [message.lookup_id for message in messages]
    if order != sorted(set(order)):
        problems.append(f"{name}: lookup ids do not ascend")
    return [entry(message) for message in messages]


def names(entries: list[list[Any]]) -> Counter[str]:
    return Counter(entry[0] for entry in entries)


def drain(queue: waypost.Queue) -> list[waypost.Message]:
    messages: list[waypost.Message] = []
    try:
        while True:
            messages += queue.receive_many(100, 0)
    except waypost.errors.Timeout:
        return messages


def entry(message: waypost.Message) -> list[Any]:
    body = parse(message.text)
    return [body.name, body.origin, message.id, message.lookup_id, message.priority]


def main() -> None:
    with waypost.open(sys.argv[1]) as manager:
        create_queues(manager)
        json.dump(take(manager), sys.stdout)


if __name__ == "__main__":
    main()
