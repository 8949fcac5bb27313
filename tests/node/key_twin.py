"""The key desk of a host in a test: it does the work of waypost.drive.keys at once, with keys of the test."""

from typing import Any

from waypost.clock import Now
from waypost.drive.keys.rsa_work import perform
from waypost.errors import ServiceNotAvailable
from waypost.node.effects import (
    CheckSignatures,
    EndKeys,
    KeyWork,
    MakeKeys,
    OpenKeys,
    RemoveCertificates,
    Signed,
    SignFor,
)
from waypost.node.kernel import Kernel
from waypost.security.work import SignDigests, UnwrapKeys, WrapKeys


class KeyTwin:
    """`exchange` are private keys in PKCS#8; `signer` is one, with its certificate. While it `is_held`, work waits.

    `dropped` are the jobs for which nobody waits any more.
    """

    def __init__(self) -> None:
        self.exchange: tuple[bytes, ...] = ()
        self.signer: tuple[bytes, bytes] = b"", b""
        self.is_held = False
        self.held: list[KeyWork] = []
        self.done: list[KeyWork] = []
        self.dropped: list[int] = []

    def carry_out(self, effect: KeyWork, kernel: Kernel, now: Now) -> None:
        if self.is_held:
            self.held.append(effect)
            return
        self.done.append(effect)
        kernel.job_done(effect.job, self._result(effect), now)

    def _result(self, effect: KeyWork) -> Any:
        match effect.request:
            case SignFor(algorithm=algorithm, digests=digests):
                signing, certificate = self.signer
                return Signed(certificate, tuple(perform(SignDigests(signing, algorithm, digests))))
            case CheckSignatures(checks):
                return [perform(each) for each in checks]
            case OpenKeys(ciphertexts, sizes):
                return perform(UnwrapKeys(self.exchange, ciphertexts, sizes))
            case MakeKeys(key, size, count):
                return perform(WrapKeys(key.pub_exp, key.modulus, size, count))
            case RemoveCertificates() | EndKeys():
                return None
            case _:
                return ServiceNotAvailable("this host has no key folder")
