"""The section [security] of the configuration (waypost.daemon.config)."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from waypost.drive.keys.settings import DEFAULT_BITS


class Security(Struct, frozen=True, forbid_unknown_fields=True):
    """Rights on queues and on this computer, keys, and signed and encrypted messages."""

    new_queues: Annotated[
        Literal["closed", "msmq"],
        Meta(
            description="Rights on a new queue, if the queue manager has users. `closed`: the creator and "
            "administrators have all rights, and everyone may send. `msmq`: the default of MSMQ, in most cases "
            "all rights for everyone. Without users, `msmq` always applies."
        ),
    ] = "closed"
    machine: Annotated[
        str,
        Meta(
            description="Rights on this computer, as a security descriptor in SDDL. Empty: only administrators may "
            "read the dead-letter queues, the journal and outgoing queues, and all users may create queues. To create "
            "a queue, a user also needs the role operate."
        ),
    ] = ""
    hardened: Annotated[
        bool,
        Meta(
            description="Hardened mode of MSMQ: answer no RPC request, and send messages only over HTTP (MS-MQDMPR "
            "3.1.1.1, HardenedSecurity)."
        ),
    ] = False
    key_bits: Annotated[
        Annotated[int, Meta(ge=1024, le=16384)],
        Meta(description="Size of new RSA keys, in bits. Keys of other sizes still work."),
    ] = DEFAULT_BITS
    key_passphrase: Annotated[
        str,
        Meta(
            description="Passphrase of the private keys in the key folder. Empty: only the permissions of the folder "
            "protect the keys."
        ),
    ] = ""
    key_passphrase_file: Annotated[str, Meta(description="File with the passphrase, instead of `key_passphrase`.")] = ""
    min_signature: Annotated[
        Literal["msmq10", "msmq20"],
        Meta(
            description="Oldest version of signatures that is accepted. A signature of MSMQ 1.0 does not cover the "
            "destination, so an attacker can send the signed message to another queue."
        ),
    ] = "msmq10"
    trust_unsigned_sender: Annotated[
        bool,
        Meta(
            description="Let the SID that an unsigned message names count in access checks, as in MSMQ. Every sender "
            "can write every SID: set this only if you trust all senders on the network."
        ),
    ] = False
