"""What of the model is there again after a start: all that was on the disk."""

from collections.abc import Callable

from waypost.sim.model.books import PURGED, Books
from waypost.sim.model.disk import Disk, Operation
from waypost.sim.model.letters import Box, Letter, State
from waypost.sim.model.works import Step, Work, Works
from waypost.sim.words import Plan


def bring_back(books: Books, disk: Disk, works: Works, restore_bulk: Callable[[], None]) -> None:
    for number in sorted(disk.boxes):
        saved = disk.boxes[number]
        books.add_box(Box(number, saved.key, saved.plan, books.by_number.get(saved.parent)))
    purged = [letter for place in sorted(disk.letters) if (letter := _letter(books, disk, place)) is not None]
    for identifier in sorted(disk.works):
        _work(books, disk, works, identifier)
    restore_bulk()
    for letter in purged:
        if letter.state is State.LOCKED:
            letter.state = State.PURGE_PENDING
            letter.is_shown = False
        else:
            books.marks.sometimes("a purged message that its lock kept over a restart")
            books.deleted(letter, PURGED)


def _letter(books: Books, disk: Disk, place: tuple[int, int]) -> Letter | None:
    """Put a letter into its box. It is returned if it was purged."""
    saved = disk.letters[place]
    letter = saved.letter.copy()
    letter.abort_count, letter.move_count = saved.abort_count, saved.move_count
    letter.is_purge_saved = saved.is_purged
    box = books.by_number[place[0]]
    box.put(letter)
    books.touched[box.number] = box
    books.total_bytes += letter.size
    books.start_timer(letter)
    if letter.expiry is not None and letter.expiry <= books.now.wall:
        books.marks.sometimes("a message that expires while the host is down")
    return letter if saved.is_purged else None


def _work(books: Books, disk: Disk, works: Works, identifier: bytes) -> None:
    """A transaction that was prepared."""
    books.marks.sometimes("a transaction recovered in doubt")
    work = works.works[identifier] = Work(identifier, is_external=True, is_prepared=True)
    works.in_doubt[identifier] = None
    by_number = books.by_number
    for saved in disk.works[identifier]:
        box = by_number.get(saved.place[0])
        letter = None if box is None else box.letters.get(saved.place[1])
        if box is None or letter is None:
            continue
        target = None
        if saved.operation is Operation.MOVE:
            target = by_number.get(saved.target) or Box(saved.target, "", Plan(""), is_deleted=True)
        work.steps.append(Step(saved.operation, letter, box, target, saved.reason))
        books.lock(letter)
        if saved.operation is Operation.SEND:
            letter.is_uncertain = True
            letter.is_shown = False
