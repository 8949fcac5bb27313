"""The number of messages that remote readers were given, and of those that are locked."""

from tests.node.remote_rig import RemoteRig
from tests.remote.qm2qm_reader import PEEK, Reader, ReadHost
from waypost.remote.interfaces.remote_read import ReceiveAction


def test_a_message_of_remote_read_is_locked_until_it_is_ended() -> None:
    rig = RemoteRig()
    reader = rig.reader()
    handle = reader.open()
    for body in ("bolts", "nuts"):
        rig.send(body)
    reader.start_receive(handle, 1, ReceiveAction.MQ_ACTION_PEEK_CURRENT)
    assert (rig.remote.statistics.messages_given_out, rig.remote.locked_messages) == (0, 0)
    reader.start_receive(handle, 2)
    reader.start_receive(handle, 3)
    assert (rig.remote.statistics.messages_given_out, rig.remote.locked_messages) == (2, 2)
    reader.end_receive(handle, 2)
    assert rig.remote.locked_messages == 1
    reader.vanish()
    assert (rig.remote.statistics.messages_given_out, rig.remote.locked_messages) == (2, 0)
    assert (rig.remote.statistics.rundowns, rig.remote.statistics.connections) == (1, 0)


def test_so_is_one_of_qm2qm() -> None:
    host = ReadHost()
    for body in ("bolts", "nuts"):
        host.put(body)
    reader = Reader(host)
    handle = reader.open()
    reader.read(handle, PEEK)
    assert (host.statistics.messages_given_out, host.queues.given_out) == (0, 0)
    read = reader.read(handle)
    reader.read(handle)
    assert (host.statistics.messages_given_out, host.queues.given_out) == (2, 2)
    reader.end(read)
    assert host.queues.given_out == 1
    reader.close(handle)
    assert (host.statistics.messages_given_out, host.queues.given_out) == (2, 0)
