"""Who holds a message, so that others do not get it or do not see what came later: in words."""

from waypost.clock import Now
from waypost.core.queues import Queue
from waypost.core.transaction_records import OperationType
from waypost.guid import guid_text
from waypost.node.node import Node


def holder_of(node: Node, queue: Queue, lookup_id: int, now: Now) -> str:
    """The stage, the claim, the transaction or the reader that holds a message which is not Available."""
    found = node.manager.transactions.operation_on(queue, lookup_id)
    if found is None:
        return "a reader that has locked a message"
    transaction, operation = found
    staged = node.stages.key_of(transaction.identifier)
    if staged is not None:
        return f"messages that are staged for {staged} and not committed"
    holder = node.claims.holder(transaction.identifier, now)
    if holder is not None:
        return f"the claim {holder[0]}"
    has_sent = operation.operation_type is OperationType.ENQUEUE
    return f"the transaction {guid_text(transaction.identifier)}, which has {'sent' if has_sent else 'taken'} a message"
