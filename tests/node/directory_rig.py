"""A node with the embedded directory: the words of tests.node.rig, and those for public queues and their objects."""

from dataclasses import replace
from typing import TypeVar

from tests.node.rig import SETTINGS, Rig, letter
from tests.store.engines import Engine
from waypost.core.queues import Queue, QueueAttributes
from waypost.directory import objects
from waypost.directory.effects import FindDirectoryServers, SendChangeNotification
from waypost.directory.objects import DirectoryObject
from waypost.directory.queries import Query, by_identifier
from waypost.directory.results import DirectoryOperationResult
from waypost.guid import guid_text
from waypost.node.directory import DirectoryMode
from waypost.node.recovery import Settings
from waypost.wire.path_names import PathName

T = TypeVar("T", bound=DirectoryObject)

EMBEDDED = replace(SETTINGS, directory=DirectoryMode.EMBEDDED)
OK = DirectoryOperationResult.SUCCESS
NOT_FOUND = DirectoryOperationResult.OBJECT_NOT_FOUND
NOT_CONNECTED = DirectoryOperationResult.DIRECTORY_NOT_CONNECTED


def public_name(identifier: bytes) -> str:
    return f"PUBLIC={guid_text(identifier)}"


class DirectoryRig(Rig):
    """`notices` are the effects that the directory asks for, as they were let go."""

    def __init__(self, settings: Settings = EMBEDDED, engine: Engine | None = None) -> None:
        self.notices: list[SendChangeNotification | FindDirectoryServers] = []
        super().__init__(engine, settings)

    def turn(self) -> None:
        effects = self.node.kernel.take_effects()
        self.notices += [each for each in effects if isinstance(each, SendChangeNotification | FindDirectoryServers)]
        self.node.kernel._effects = [each for each in effects if each not in self.notices]
        super().turn()

    def publish(self, name: str = "public", /, **attributes: object) -> Queue:
        """Create a public queue."""
        with self.node.kernel.operation(self.now):
            given = QueueAttributes(PathName.parse(f"host\\{name}"), **attributes)  # type: ignore[arg-type]
            queue = self.node.manager.create_queue(given, self.now)
        self.settle()
        return queue

    def publish_quietly(self, name: str = "public") -> Queue:
        """The same with iSkipDirectory."""
        with self.node.kernel.operation(self.now):
            attributes = QueueAttributes(PathName.parse(f"host\\{name}"))
            queue = self.node.manager.create_queue(attributes, self.now, skip_directory=True)
        self.settle()
        return queue

    def mail(self, label: str, name: str) -> int:
        """Send a recoverable message to a public name."""
        return self.send(letter(label), name)

    def change(self, queue: Queue, /, **changes: object) -> None:
        with self.node.kernel.operation(self.now):
            given = replace(queue.attributes, **changes)  # type: ignore[arg-type]
            self.node.manager.modify_queue(queue, given, self.now)
        self.settle()

    def unpublish(self, queue: Queue) -> None:
        self.done(self.delete(str(queue.pathname)))

    def public(self, name: str = "public") -> Queue:
        return self.node.manager.queues[PathName.parse(f"host\\{name}")]

    def read(self, object_type: type[T], identifier: bytes) -> T | None:
        query = Query(object_type, by_identifier(identifier))
        return self.node.directory.events.read_directory(query, self.now).value

    def object_of(self, queue: Queue) -> objects.Queue:
        item = self.read(objects.Queue, queue.identifier)
        assert item is not None
        return item

    def put(self, item: DirectoryObject) -> bytes:
        """Create an object in the directory."""
        with self.node.kernel.operation(self.now):
            result = self.node.directory.events.create_directory_object(item, self.now)
        self.settle()
        assert result.value is not None
        return result.value

    def set(self, item: DirectoryObject, *names: str) -> None:
        """Change these attributes of an object in the directory."""
        with self.node.kernel.operation(self.now):
            assert self.node.directory.events.write_directory(item, self.now, attribute_list=names) is OK
        self.settle()

    def remove(self, item: DirectoryObject) -> None:
        with self.node.kernel.operation(self.now):
            assert self.node.directory.events.delete_directory_object(item, self.now) is OK
        self.settle()

    def look_at_directory(self) -> None:
        """MS-MQDMPR 3.1.7.1.25."""
        with self.node.kernel.operation(self.now):
            self.node.directory.events.check_directory_online(self.now)
        self.settle()
