"""Following a queue without receiving: the event stream of a daemon, and the same inside a process."""

from typing import Annotated

from msgspec import Meta, Struct

from waypost.api.operations import Form, QueueName


class Events(Struct, frozen=True, kw_only=True):
    """The queue to follow. `since` is the id of an event, `start` for all messages, or "" for messages from now on.

    With the form `packet`, the `data` of an event is a PacketRow, and the `data` of the event `gone` is an ErrorObject.
    """

    name: QueueName
    since: Annotated[str, Meta(extra_json_schema={"pattern": "^(start|[0-9]{1,20})?$"})] = ""
    form: Form = "full"
