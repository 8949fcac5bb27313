"""A wrong route between daemons brings messages back to their source."""

import json
from pathlib import Path

from tests.crash.daemons import SHORT_TIMERS, Daemon, loopback, patience, start_all
from tests.daemon.commands import check_of, metric, waypost_of
from waypost.wire.message_class import MessageClass

SECONDS = 60
FAR = "0000000c-0000-4000-8000-000000000001"


def test_a_message_that_comes_back_is_a_dead_letter_and_the_loop_is_named(tmp_path: Path) -> None:
    with (
        Daemon(tmp_path, "alpha", loopback(66), *SHORT_TIMERS) as alpha,
        Daemon(tmp_path, "beta", loopback(67), *SHORT_TIMERS) as beta,
    ):
        for daemon in (alpha, beta):
            daemon.prepare()
        for one, other in ((alpha, beta), (beta, alpha)):
            one.settings.append(f"routing.routes={other.guid}={other.address},{FAR}=via {other.guid}")
        start_all([alpha, beta])
        name = rf"PRIVATE={FAR}\00000007"
        with alpha.connect() as manager:
            admin = manager.create_queue("admin")
            sent = manager.send(
                name, "plain", dead_letter=True, admin_queue=alpha.direct("admin"), acknowledge="nack-reach-queue"
            )
            dead = manager.queue("system$;deadletter").receive(timeout=SECONDS)
            reason = MessageClass.MQMSG_CLASS_NACK_HOP_COUNT_EXCEEDED
            assert (dead.id, dead.text, dead.message_class) == (sent.id, "plain", reason)
            assert admin.receive(timeout=SECONDS).message_class == reason
            with manager.transaction() as transaction:
                manager.send(name, "order", transaction=transaction)
            with patience(SECONDS, "the transactional message does not come back") as turns:
                for _ in turns:
                    if metric(alpha, "waypost_transfer_messages_returned_total") > 1:
                        break
            waiting = [queue.info() for queue in manager.outgoing_queues()]
            assert [info.message_count for info in waiting if FAR in (info.format_name or "")] == [1]
        check = check_of(alpha, "routes")
        assert not check["ok"]
        assert beta.guid in check["message"]
        explained = json.loads(waypost_of(alpha, "explain", name, "--json").stdout)
        assert explained["facts"]["loop"]["guid"] == beta.guid
        assert check_of(beta, "routes")["ok"]
