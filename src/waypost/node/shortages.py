"""Why new messages are refused now, in words: the disk has only its reserve left, or the machine quota is reached.

Receives go on in either case, and the room that they make is used again.
"""

from waypost.node.node import Node


def shortages(node: Node) -> list[str]:
    """Sentences without a full stop; none if there is room."""
    return [each for each in (disk_shortage(node), quota_shortage(node)) if each]


def disk_shortage(node: Node) -> str:
    return f"{node.kernel.room.sentence}, so new messages are refused" if node.kernel.room.is_low else ""


def quota_shortage(node: Node) -> str:
    positions = node.manager.positions
    if not positions.is_full:
        return ""
    return (
        f"all queues together use {positions.total_bytes} bytes of the machine quota of {positions.quota} KB "
        "(quotas.machine_kb), so new messages are refused"
    )
