"""The section [security] of the configuration (waypost.daemon.config)."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from waypost.api.properties import Hash
from waypost.drive.keys.settings import DEFAULT_BITS


class Security(Struct, frozen=True, forbid_unknown_fields=True):
    """Keys, signed and encrypted messages, and rights on queues and on this computer."""

    new_queues: Annotated[
        Literal["closed", "msmq"],
        Meta(
            description="Rights on a new queue, if the queue manager has users. With `closed`, the creator and "
            "administrators have all rights, and everyone can send. With `msmq`, a new queue gets the default rights "
            "of MSMQ: in most cases, everyone has all rights. If the queue manager has no users, `msmq` always applies."
        ),
    ] = "closed"
    machine: Annotated[
        str,
        Meta(
            description="Rights on this computer, as a security descriptor in SDDL. If empty, only administrators can "
            "read the dead-letter queues, the journal and outgoing queues, and every user with the role `operate` or "
            "`admin` can create queues. A user with neither the role `operate` nor the role `admin` can never create "
            "queues."
        ),
    ] = ""
    hardened: Annotated[
        bool,
        Meta(
            description="Turn on the hardened mode of MSMQ, in which a queue manager opens no RPC port and transfers "
            "messages only over HTTP (MS-MQDMPR 3.1.1.1, HardenedSecurity). Because Waypost does not transfer messages "
            "over HTTP, messages for other computers stay in the outgoing queues."
        ),
    ] = False
    key_bits: Annotated[
        Annotated[int, Meta(ge=1024, le=16384)],
        Meta(description="Size of new RSA keys, in bits. Existing keys of other sizes still work."),
    ] = DEFAULT_BITS
    key_passphrase: Annotated[
        str,
        Meta(
            description="Passphrase of the private keys in the key folder. The daemon reads the passphrase only from "
            "the environment variable `WAYPOST_SECURITY_KEY_PASSPHRASE`. If empty, only the permissions of the folder "
            "protect the keys."
        ),
    ] = ""
    key_passphrase_file: Annotated[str, Meta(description="File with the passphrase, instead of `key_passphrase`.")] = ""
    min_signature: Annotated[
        Literal["msmq10", "msmq20"],
        Meta(
            description="Oldest signature version that the daemon accepts. A signature of MSMQ 1.0 does not cover the "
            "destination. Therefore, an attacker can send the signed message to another queue."
        ),
    ] = "msmq10"
    hashes: Annotated[
        tuple[Hash, ...],
        Meta(
            min_length=1,
            description="Hash algorithms that are allowed in signatures of received messages. Attackers can make two "
            "messages with the same MD5 or SHA-1 hash, so accept MD5 and SHA-1 only from old senders.",
        ),
    ] = ("sha512", "sha256", "sha1", "md5")
    reject_short_rc2: Annotated[
        bool,
        Meta(
            description="Refuse a message if only 40 bits of its 128-bit RC2 key are random (MS-MQQB 3.1.1.3, "
            "RejectEnhancedRC2Using40BitKeys). Old versions of Windows use RC2 keys with 40 random bits."
        ),
    ] = False
    trust_unsigned_sender: Annotated[
        bool,
        Meta(
            description="Use the SID in an unsigned message for access checks, as MSMQ does. Any sender can write "
            "any SID into a message, so set this key to true only if you trust all senders on the network."
        ),
    ] = False
