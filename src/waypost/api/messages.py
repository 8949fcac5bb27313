"""The message object, which HTTP, `--json` and `Message.to_dict` show: one line a key."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType


class CopyObject(Struct, kw_only=True):
    """A message that was sent to several queues, in one of them."""

    destination_queue: str
    lookup_id: str
    size: int


class MessageObject(Struct, kw_only=True, rename={"message_class": "class"}):
    """A message. A key has the value of the attribute of waypost.Message with its name, in the form of JSON.

    MessagePack has `body` for `body_base64`, and `extension` for `extension_base64`.
    """

    id: Annotated[str, Meta(description="The identifier, {guid}\\number, the same wherever it goes.")]
    lookup_id: Annotated[str, Meta(description="Its place in this queue: 64 bits, as a decimal string.")]
    label: Annotated[str, Meta(description="The title.")]
    body_base64: Annotated[bytes | UnsetType, Meta(description="The body, in base64.")] = UNSET
    body: Annotated[bytes | UnsetType, Meta(description="The body, in MessagePack.")] = UNSET
    body_text: Annotated[str | None, Meta(description="The body as text; null if it is not text.")]
    body_type: Annotated[int, Meta(description="The VARTYPE of the body; 0 if the sender did not say.")]
    message_class: Annotated[str, Meta(description="The class, as 0x and four digits.")]
    class_name: Annotated[str, Meta(description="The name of the class; empty if the application made it up.")]
    priority: Annotated[int, Meta(description="0 to 7; 0 in a transactional message.")]
    delivery: Annotated[str, Meta(description="express or recoverable.")]
    transactional: Annotated[bool, Meta(description="Whether it was sent in a transaction.")]
    sent_time: Annotated[str, Meta(description="When it was sent, by the clock of the sender: ISO 8601, UTC.")]
    arrived_time: Annotated[str, Meta(description="When it came to this queue manager: ISO 8601, UTC.")]
    source_machine: Annotated[str, Meta(description="The GUID of the sending queue manager.")]
    sender_sid: Annotated[str | None, Meta(description="The SID that the sender claims; null without one.")]
    sender_verified: Annotated[bool, Meta(description="Whether `sender_sid` was verified.")] = False
    authenticated: Annotated[bool, Meta(description="Whether its signature was verified.")] = False
    encrypted: Annotated[bool, Meta(description="Whether the body is ciphertext.")] = False
    correlation_id: Annotated[str | None, Meta(description="The id of the message that it answers.")]
    app_tag: Annotated[int, Meta(description="A number of the application.")]
    admin_queue: Annotated[str | None, Meta(description="The queue for acknowledgments; the first of several.")]
    response_queue: Annotated[str | None, Meta(description="The queue for answers; the first of several.")]
    destination_queue: Annotated[str | None, Meta(description="The queue that it was sent to.")]
    first_in_transaction: Annotated[bool, Meta(description="Whether it is the first of its transaction.")]
    last_in_transaction: Annotated[bool, Meta(description="Whether it is the last of its transaction.")]
    abort_count: Annotated[int, Meta(description="Transactions that have received it and aborted.")]
    move_count: Annotated[int, Meta(description="Moves between a queue and its subqueues.")]
    size: Annotated[int, Meta(description="Bytes that it counts in quotas.")]
    class_meaning: Annotated[str, Meta(description="The class in words: of a dead-letter message, why it died.")]
    acknowledge: Annotated[str, Meta(description="The acknowledgments that were asked for, in the words of a send.")]
    journal: Annotated[bool, Meta(description="Whether its sender keeps a copy in system$;journal.")]
    dead_letter: Annotated[bool, Meta(description="Whether its sender keeps it if it cannot be delivered.")]
    time_to_reach_queue: Annotated[int | None, Meta(description="Seconds to reach its queue; null for no limit.")]
    time_to_reach_queue_ends: Annotated[str | None, Meta(description="When they end: ISO 8601, UTC.")]
    time_to_be_received: Annotated[int | None, Meta(description="Seconds to be received; null for no limit.")]
    time_to_be_received_ends: Annotated[str | None, Meta(description="When they end: ISO 8601, UTC.")]
    trace: Annotated[
        str | None, Meta(description="The queue for reports on its way; empty if it is traced and none is named.")
    ]
    connector_type: Annotated[str | None, Meta(description="The GUID of its connector; null without one.")]
    extension_base64: Annotated[bytes | UnsetType, Meta(description="The extension, in base64.")] = UNSET
    extension: Annotated[bytes | UnsetType, Meta(description="The extension, in MessagePack.")] = UNSET
    headers: Annotated[
        dict[str, str] | None,
        Meta(description="The headers of NServiceBus, Rebus or MassTransit; null without them."),
    ]
    admin_queues: Annotated[list[str] | UnsetType, Meta(description="All queues for acknowledgments, if several.")] = (
        UNSET
    )
    response_queues: Annotated[list[str] | UnsetType, Meta(description="All queues for answers, if several.")] = UNSET
    copies: Annotated[
        list[CopyObject] | UnsetType, Meta(description="The message in each queue, if it was sent to several at once.")
    ] = UNSET
