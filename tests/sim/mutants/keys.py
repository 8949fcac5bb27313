"""Mistakes with signed and encrypted messages, for several hosts with keys to find.

As tests.sim.mutants.planting says, each is a small sabotage of the engine for one run.
"""

from collections.abc import Callable
from typing import Any, Final

from tests.sim.mutants.planting import Mutant, instead, nothing
from waypost.clock import Now
from waypost.drive.keys import key_records
from waypost.drive.keys.key_records import KeyRecord
from waypost.errors import WaypostError
from waypost.node.effects import CheckSignatures, KeyRequest
from waypost.node.kernel import Kernel
from waypost.node.network import arrivals
from waypost.node.network.checking import Checking
from waypost.node.network.sealing import Sealing
from waypost.node.protection import Protection
from waypost.security.aging_cache import AgingCache
from waypost.security.protection_facts import ProtectionFacts
from waypost.security.work import CheckedSignature
from waypost.sim.patches import Patch, patched
from waypost.transfer.links import Link
from waypost.transfer.session import Session

_NODES: Final = 3


def _current_only(decrypting: Any) -> Callable[[list[KeyRecord], float], list[KeyRecord]]:
    return lambda keys, wall: [each for each in decrypting(keys, wall) if each.retired is None]


def _kept(name: str) -> Callable[[Any], Callable[[Protection, ProtectionFacts], None]]:
    """Keep one of the caches when the facts change."""

    def make(facts_changed: Any) -> Callable[[Protection, ProtectionFacts], None]:
        def sentimental(protection: Protection, facts: ProtectionFacts) -> None:
            kept: AgingCache[Any, Any] = getattr(protection, name)

            def clear(cache: AgingCache[Any, Any]) -> None:
                if cache is not kept:
                    cache._entries.clear()

            with patched(Patch(AgingCache, "clear", clear)):
                facts_changed(protection, facts)

        return sentimental

    return make


def _in_the_clear(seal: Any) -> Callable[[Sealing, Link, bytes, Now], Any]:
    def careless(sealing: Sealing, link: Link, data: bytes, now: Now) -> Any:
        sealed = seal(sealing, link, data, now)
        return data if isinstance(sealed, str) else sealed

    return careless


def _accepted(_protection_refusal: Any) -> Callable[..., None]:
    return lambda *_, **__: None


def _failures_as_forgeries(ask_keys: Any) -> Callable[..., int]:
    def hasty(kernel: Kernel, request: KeyRequest, then: Callable[[object, Now], None], peer: str = "") -> int:
        def judged(result: object, now: Now) -> None:
            if isinstance(request, CheckSignatures) and isinstance(result, WaypostError):
                result = [CheckedSignature(-1, str(result), 0, 0xFFFF_FFFF) for _ in request.checks]
            then(result, now)

        job: int = ask_keys(kernel, request, judged, peer)
        return job

    return hasty


def _forgotten(_give_up: Any) -> Callable[[Checking, Session, WaypostError, Now], None]:
    return lambda checking, session, _error, _now: checking.forget(session)


def _given_up(_try_later: Any) -> Callable[..., None]:
    def impatient(sealing: Sealing, key: Any, error: WaypostError, _now: Now) -> None:
        sealing._failed[key] = str(error)
        for link in sealing._making.pop(key):
            sealing._want(link)

    return impatient


def _unverified(_is_registered: Any) -> Callable[..., Any]:
    """Every certificate is taken for a registered one."""
    return lambda _protection, _certificate, _sid, _now: True


def _mutant(name: str, mistake: str, patches: tuple[Patch, ...], *, is_slow: bool = False) -> Mutant:
    return Mutant(name, mistake, patches, _NODES, is_slow)


KEY_MUTANTS: Final = (
    _mutant(
        "current-key-only",
        "decrypts only with the current key",
        instead(key_records, "decrypting", _current_only),
    ),
    _mutant(
        "removal-ignored",
        "remembers a certificate that was removed",
        instead(Protection, "facts_changed", _kept("user_certs")),
    ),
    _mutant(
        "rotation-ignored",
        "remembers the symmetric keys of an exchange key that has ended",
        instead(Protection, "facts_changed", _kept("receive_keys")),
    ),
    _mutant(
        "sent-in-the-clear",
        "sends a message in the clear if it knows no key",
        instead(Sealing, "seal", _in_the_clear),
    ),
    _mutant(
        "unsigned-accepted",
        "delivers unsigned and clear messages to queues that demand protection",
        instead(arrivals, "protection_refusal", _accepted),
    ),
    _mutant(
        "failures-as-forgeries",
        "takes work with keys that failed for a wrong signature",
        instead(Kernel, "ask_keys", _failures_as_forgeries),
    ),
    _mutant(
        "held-forgotten",
        "forgets the messages that it checks, and does not close their session",
        instead(Checking, "_give_up", _forgotten),
    ),
    _mutant(
        "acknowledged-unchecked",
        "acknowledges express messages before they are checked",
        instead(Session, "set_untaken", nothing),
    ),
    _mutant(
        "encryption-given-up",
        "gives a message up when work with keys fails",
        instead(Sealing, "_try_later", _given_up),
    ),
    _mutant(
        "anybody-registered",
        "takes every certificate for a registered one",
        instead(Protection, "is_registered", _unverified),
    ),
)
