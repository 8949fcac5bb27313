"""What follows a queue, and takes nothing: the event stream of a daemon, and the same inside a process."""

from typing import Annotated

from msgspec import Meta, Struct

from waypost.api.operations import Form, QueueName


class Events(Struct, frozen=True, kw_only=True):
    """The queue to follow, and from where on: the id of an event, `start`, or nothing for what comes from now on.

    With the form `packet` the `data` of an event is a PacketRow, and that of `gone` an ErrorObject.
    """

    name: QueueName
    since: Annotated[str, Meta(extra_json_schema={"pattern": "^(start|[0-9]{1,20})?$"})] = ""
    form: Form = "full"
