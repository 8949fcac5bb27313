"""What can be asked of a queue manager: one record an operation, its reply, and one row that says the rest.

Whatever carries operations reads these rows: the HTTP client builds a request from one, the server's route is bound
from the same one, and the queue manager's handlers are found by the type of the record. An operation that is not here
yet is a function of waypost.node.application.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, ClassVar, Final, Generic, TypeVar, get_args

from msgspec import Meta, Struct
from msgspec.structs import fields

from waypost.api.damaged import DamagedPage, Forgotten
from waypost.api.excerpt import excerpt
from waypost.api.explanation import Explanation
from waypost.api.forms import (
    ADDRESS_FORM,
    ADDRESS_OR_NOTHING_FORM,
    GUID_FORM,
    GUID_OR_NOTHING_FORM,
    MESSAGE_ID_FORM,
    PLACE_FORM,
)
from waypost.api.queues import Kind, QueueInfo, QueueList
from waypost.api.sequences import Admitted, AdmittedAddresses, Direction, SequencePage, SequenceReset
from waypost.errors import DecodeError, InvalidParameter
from waypost.wire.identifiers import MessageIdentifier

R_co = TypeVar("R_co", covariant=True)
O = TypeVar("O", bound="Operation[object]")  # noqa: E741, an operation

# To purge, delete or renumber a queue takes as long as it has messages: minutes if they are millions.
LONG_SECONDS: Final = 3600.0

_PATH_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")
# Methods whose operations have no body: what is not in the path is in the query.
_WITHOUT_BODY: Final = frozenset({"GET", "DELETE"})


class Right(Enum):
    """What a caller has to be allowed to do."""

    READ = "read"
    SEND = "send"
    RECEIVE = "receive"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Row:
    """What is to know of an operation beside its fields.

    `path_names`, `query_names` and `body_names` say where each field is in a request. `reads_only` if it changes
    nothing, `is_repeatable` if to do it twice is as good as to do it once. `status` is that of success, 204 exactly if
    there is no reply. An answer may take `wait_s` seconds longer than others.
    """

    name: str
    method: str
    path: str
    path_names: tuple[str, ...]
    query_names: tuple[str, ...]
    body_names: tuple[str, ...]
    reply: type[Any]
    asks: Right
    reads_only: bool
    is_repeatable: bool
    status: int
    wait_s: float
    help: str

    @property
    def words(self) -> str:
        """Its name, for people."""
        return self.name.replace("_", " ")


class Operation(Struct, Generic[R_co], frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is asked for, with a reply of the type R_co. It is checked where it is done, before anything changes."""

    row: ClassVar[Row]


def operation(binding: str, *, asks: Right, status: int = 200, wait_s: float = 0.0) -> Callable[[type[O]], type[O]]:
    """Give a record its row. `binding` is like "POST /api/queues/{name}/purge?outgoing".

    Fields that it names with ? are in the query of a request; the others are in the path, if it has them there, or in
    the query of a GET or DELETE, or else in the body.
    """
    method, _, target = binding.partition(" ")
    path, _, query = target.partition("?")

    def add_row(kind: type[O]) -> type[O]:
        names = [each.name for each in fields(kind)]
        in_path = tuple(_PATH_PARAMETER.findall(path))
        rest = [name for name in names if name not in in_path]
        in_query = tuple(rest) if method in _WITHOUT_BODY else tuple(query.split("&") if query else ())
        assert set(in_path) | set(in_query) <= set(names), f"{binding} names what {kind.__name__} does not have"
        (reply,) = get_args(kind.__orig_bases__[0])  # type: ignore[attr-defined]  # of a subclass of Operation[R]
        assert (status == 204) is (reply is type(None)), f"the status of {kind.__name__} does not fit its reply"
        assert kind.__doc__
        kind.row = Row(
            name=_CAPITAL.sub("_", kind.__name__).lower(),
            method=method,
            path=path,
            path_names=in_path,
            query_names=in_query,
            body_names=tuple(name for name in rest if name not in in_query),
            reply=reply,
            asks=asks,
            reads_only=method == "GET",
            is_repeatable=method in ("GET", "PATCH"),
            status=status,
            wait_s=wait_s,
            help=kind.__doc__.partition("\n")[0],
        )
        return kind

    return add_row


# In a path it is percent-encoded.
QueueName = Annotated[str, Meta(description="A queue: orders, orders;retry, DIRECT=..., any NAME.")]
# Where it is checked, the sentence says more than a decoder could.
Age = Annotated[float, Meta(description="Seconds, 0 or more.", extra_json_schema={"minimum": 0})]
Guid = Annotated[str, Meta(description="The GUID of a queue manager.", extra_json_schema=GUID_FORM)]
Address = Annotated[str, Meta(description="An IP address.", extra_json_schema=ADDRESS_FORM)]
After = Annotated[str, Meta(description="The `next` of the page before.", extra_json_schema=PLACE_FORM)]


# --- Queues -----------------------------------------------------------------------------------------------------------


@operation("GET /api/queues", asks=Right.READ)
class ListQueues(Operation[QueueList], frozen=True, kw_only=True):
    """List the queues that applications have created; with `kind` others: outgoing, system or all.

    Of many queues each is shown as it is when its turn comes: one that is created or deleted meanwhile may be missing.
    """

    kind: Kind = ""
    pattern: Annotated[str, Meta(description="Compared with names of queues: * and ? are any characters.")] = ""


@operation("GET /api/queues/{name}", asks=Right.READ)
class ShowQueue(Operation[QueueInfo], frozen=True, kw_only=True):
    """Show a queue as it is at this moment."""

    name: QueueName


@operation("DELETE /api/queues/{name}", asks=Right.ADMIN, status=204, wait_s=LONG_SECONDS)
class DeleteQueue(Operation[None], frozen=True, kw_only=True):
    """Delete a queue with all that is in it."""

    name: QueueName


@operation("POST /api/queues/{name}/pause", asks=Right.ADMIN, status=204)
class PauseQueue(Operation[None], frozen=True, kw_only=True):
    """Let no message leave an outgoing queue."""

    name: QueueName


@operation("POST /api/queues/{name}/resume", asks=Right.ADMIN, status=204)
class ResumeQueue(Operation[None], frozen=True, kw_only=True):
    """Let messages leave an outgoing queue again."""

    name: QueueName


# --- Transactional sequences ------------------------------------------------------------------------------------------


@operation("GET /api/sequences", asks=Right.READ)
class ListSequences(Operation[SequencePage], frozen=True, kw_only=True):
    """List transactional sequences, a thousand at most with each request.

    `direction` is `in` for what comes from others, `out` for what is sent from here, `refused` for what is not taken.
    `queue`, `source` (a GUID) and `address` leave the others out. `after` goes on where `next` of a page says.
    """

    direction: Direction = "in"
    queue: str = ""
    source: Annotated[str, Meta(extra_json_schema=GUID_OR_NOTHING_FORM)] = ""
    address: Annotated[str, Meta(extra_json_schema=ADDRESS_OR_NOTHING_FORM)] = ""
    after: After = ""


@operation("POST /api/sequences/reset", asks=Right.ADMIN, wait_s=LONG_SECONDS)
class ResetSequences(Operation[SequenceReset], frozen=True, kw_only=True):
    """Begin transactional sequences again, which may let messages come twice: `warning` says which.

    They are those that fit all that is given. The name of an outgoing queue means the sequence that is sent from here;
    it is answered when all waiting messages have their new numbers, and a second reset meanwhile is refused.
    `trial` changes nothing, and says what would be done. A request looks at ten thousand sequences at most; `after`
    goes on where its `next` says.
    """

    queue: str | None = None
    source: Guid | None = None
    address: Address | None = None
    older_than_s: Age | None = None
    after: After = ""
    trial: bool = False


@operation("POST /api/sequences/admit", asks=Right.ADMIN)
class AdmitAddress(Operation[Admitted], frozen=True, kw_only=True):
    """Believe what a queue manager acknowledges from this address, now and from now on (ADR 22)."""

    guid: Guid
    address: Address


@operation("POST /api/sequences/revoke", asks=Right.ADMIN, status=204)
class RevokeAddress(Operation[None], frozen=True, kw_only=True):
    """Take back that an address was admitted. What was applied stays applied."""

    guid: Guid
    address: Address


@operation("GET /api/sequences/admitted", asks=Right.READ)
class ListAdmitted(Operation[AdmittedAddresses], frozen=True, kw_only=True):
    """List the addresses that operators have admitted, with their queue managers."""


# --- What is wrong ----------------------------------------------------------------------------------------------------


@operation("GET /api/explain", asks=Right.READ)
class Explain(Operation[Explanation], frozen=True, kw_only=True):
    """Say why a message, or the messages of a queue, are where they are. Only one of `message` and `queue` is given."""

    message: Annotated[str, Meta(description="The id of a message.", extra_json_schema=MESSAGE_ID_FORM)] = ""
    queue: Annotated[str, Meta(description="Any name of a queue.")] = ""

    @classmethod
    def of(cls, subject: object) -> "Explain":
        """Of a message by its id, or a queue by its name. Raises InvalidParameter for what is neither."""
        if not isinstance(subject, str):
            raise InvalidParameter(f"what to explain is the id of a message or a queue, not {excerpt(subject)}")
        try:
            MessageIdentifier.parse(subject)
        except DecodeError:
            return cls(queue=subject)
        return cls(message=subject)


@operation("GET /api/store/damaged", asks=Right.READ)
class ListDamaged(Operation[DamagedPage], frozen=True, kw_only=True):
    """List messages that were damaged on disk and set aside, a thousand at most with each request.

    `with_bytes` adds what was found in their place. `after` goes on where `next` of a page says.
    """

    after: After = ""
    with_bytes: bool = False


@operation("DELETE /api/store/damaged", asks=Right.ADMIN)
class ForgetDamaged(Operation[Forgotten], frozen=True, kw_only=True):
    """Let go what is kept of messages that were damaged on disk."""


OPERATIONS: Final[tuple[type[Operation[object]], ...]] = (
    ListQueues,
    ShowQueue,
    DeleteQueue,
    PauseQueue,
    ResumeQueue,
    ListSequences,
    ResetSequences,
    AdmitAddress,
    RevokeAddress,
    ListAdmitted,
    Explain,
    ListDamaged,
    ForgetDamaged,
)
