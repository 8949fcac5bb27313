"""What is written in one turn of the loop goes out as one piece."""

import asyncio

from waypost.daemon.corked import Corked


class Wire(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 100

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


def test_what_is_written_in_one_turn_goes_out_together_and_in_order() -> None:
    async def write() -> list[bytes]:
        wire = Wire()
        corked = Corked(wire, asyncio.get_running_loop())
        corked.write(b"head ")
        corked.write(b"body")
        assert wire.written == []
        assert corked.get_write_buffer_size() == 109
        await asyncio.sleep(0)
        corked.write(b"next")
        await asyncio.sleep(0)
        return wire.written

    assert asyncio.run(write()) == [b"head body", b"next"]


def test_closing_writes_what_was_held_back_and_nothing_afterwards() -> None:
    async def close() -> Wire:
        wire = Wire()
        corked = Corked(wire, asyncio.get_running_loop())
        corked.write(b"last")
        corked.close()
        corked.write(b"too late")
        await asyncio.sleep(0)
        return wire

    wire = asyncio.run(close())
    assert wire.written == [b"last"]
    assert wire.is_closed
