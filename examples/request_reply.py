"""Send a request and get a reply, with a response queue, a correlation id, an acknowledgment and a dead-letter message.

python examples/request_reply.py [FOLDER]
"""

import sys
import tempfile
from contextlib import suppress
from threading import Thread

import waypost


def serve(manager: waypost.Manager) -> None:
    """Send an answer to the response queue of every question. The response queue may be on any computer."""
    for question in manager.queue("questions").follow(timeout=1):
        if question.response_queue is not None:
            answer = question.text.upper()
            manager.send(question.response_queue, answer, correlation_id=question.id, recoverable=False)


def main(folder: str) -> None:
    with waypost.open(folder) as manager:
        for name in ("questions", "answers", "receipts"):
            with suppress(waypost.errors.QueueExists):
                manager.create_queue(name)
        questions, answers = manager.queue("questions"), manager.queue("answers")

        server = Thread(target=serve, args=(manager,))
        server.start()
        asked = questions.send(
            "how are you?",
            response_queue=answers,
            time_to_be_received=60,
            acknowledge="full-receive",
            admin_queue="receipts",
            dead_letter=True,
        )
        answer = answers.receive(timeout=10)
        kind = "to our question" if answer.correlation_id == asked.id else "to another question"
        print(f"answer {kind}: {answer.text}")
        receipt = manager.queue("receipts").receive(timeout=10)
        kind = "for our question" if receipt.correlation_id == asked.id else "for another message"
        print(f"receipt {kind}: {receipt.class_meaning}")
        server.join()

        # No program receives questions any more, and this message expires immediately.
        questions.send("anybody?", time_to_be_received=0, dead_letter=True)
        letter = manager.queue("system$;deadletter").receive(timeout=10)
        print(f"dead-letter message: {letter.text} ({letter.class_meaning})")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(folder)
