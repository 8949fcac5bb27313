"""Operations of a node on the network, beside those of applications."""

from waypost.node.application import Call
from waypost.sim.operations import Operations


class NetworkOperations(Operations):
    """With what clears up when everything heals."""

    def abort_all(self, call: Call) -> None:
        """Whoever began these transactions is gone."""
        with self._node.operation(call.now):
            for identifier in list(self._node.manager.transactions.collection):
                self._node.manager.transactions.transaction_abort(identifier)
            self._node.reply(call.request)

    def clear_copies(self, call: Call) -> None:
        """Make room: nobody looks at journals and dead-letter messages here."""
        manager = self._node.manager
        with self._node.operation(call.now):
            journals = [queue.journal for queue in manager.queues.values() if queue.journal is not None]
            for queue in (*manager.system_queues.values(), *journals):
                manager.writing.purge_queue(queue)
            self._node.reply(call.request)
