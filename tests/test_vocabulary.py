"""tools/vocabulary.py and tools/walk.py: a small package, and a message through a daemon."""

import ast
from pathlib import Path

from tools.vocabulary import is_invariant, is_vague, measure_walks, read, read_rows, walk_rows
from tools.walk import Call, Walk

SMALL = {
    "node/part.py": """
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waypost.node.node import Node


class Part:
    def tick(self, now):
        assert self.count >= 0
        assert now is not None
""",
    "sim/world.py": "class Queue:\n    def next_deadline(self): ...\n",
    "client/queue.py": "class Queue:\n    def send(self, **properties: Any) -> None: ...\n",
    "wire/packet.py": "def decode(buf: Any) -> None: ...\n",
}


def rows_of(folder: Path) -> dict[str, str]:
    for name, text in SMALL.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return dict(read_rows(read(folder)))


def test_the_source_of_a_small_package_is_counted(tmp_path: Path) -> None:
    rows = rows_of(tmp_path)
    assert rows["definitions of tick and of what polls a deadline"] == "2, 1 outside sim"
    assert rows["signatures with Any or an untyped callable on the seam"] == "1 (client 1)"
    assert rows["classes named Queue / Cursor / Transaction / Manager"] == "2 / 0 / 0 / 0"
    assert rows["modules of node with TYPE_CHECKING imports"] == "1 node/part.py"
    assert rows["assertions of invariants"] == "1 (node 1)"
    assert rows["lines and files of src"] == f"{sum(text.count(chr(10)) for text in SMALL.values())}, 4"


def vague(signature: str) -> bool:
    function = ast.parse(f"def function{signature}: ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    return is_vague(function)


def test_a_signature_is_vague_with_any_or_a_callable_of_unknown_arguments() -> None:
    assert vague("(value: list[Any])")
    assert vague("(*args: Any)")
    assert vague("(value) -> 'dict[str, Any] | None'")
    assert vague("(do: Callable[..., None])")
    assert not vague("(do: Callable[[int], None], word: Literal['not python']) -> object")


def test_an_assertion_for_the_type_checker_is_not_an_invariant() -> None:
    def counts(text: str) -> bool:
        return is_invariant(ast.parse(text).body[0])

    assert counts("assert low <= high")
    assert counts("assert not self.waits")
    assert not counts("assert found is not None")
    assert not counts("assert isinstance(found, int)")


def test_a_walk_goes_from_the_first_to_the_last_callback_at_its_door() -> None:
    other, door, inner = Call("drive/loop.py", "tick"), Call("daemon/tcp.py", "read"), Call("node/node.py", "Node.take")
    walk = Walk.cut([[other], [door, inner], [other], [inner, inner, door], [other]], "daemon/tcp.py")
    assert walk.calls == (door, inner, other, inner, inner, door)
    assert walk.modules == ["daemon/tcp.py", "node/node.py", "drive/loop.py"]
    assert walk.changes == 4
    assert dict(walk_rows(walk))["times node.py is entered"] == "3"


def test_the_walks_of_a_message_begin_at_the_socket_and_reach_the_queue() -> None:
    walks = measure_walks()
    doors = ["daemon/tcp.py", "daemon/tcp.py", "daemon/http_connection.py"]
    assert [walk.modules[0] for walk in walks.values()] == doors
    for walk in walks.values():
        assert "core/positions.py" in walk.modules
        assert int(dict(walk_rows(walk))["calls"]) >= len(walk.modules)
