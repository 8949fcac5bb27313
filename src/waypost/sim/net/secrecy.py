"""Signed and encrypted messages of some seeds: what is drawn about keys, certificates, queues and messages.

The random numbers are separate, so that the simulations without keys stay the same.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, Literal

from waypost.sim.plans import Plan, PlannedMessage
from waypost.sim.swarm import Swarm

# The share of the simulations of several hosts that have keys.
_WITH_KEYS: Final = 0.4

_ALGORITHMS: Final = ("aes256", "aes192", "aes128", "rc2", "rc4")
_HASHES: Final = ("sha512", "sha256", "sha1", "md5")
# Queues that demand or exclude protection: key, authenticates, privacy.
_QUEUES: Final[tuple[tuple[str, bool, Literal["", "none", "body"]], ...]] = (
    ("signed", True, ""),
    ("secret", False, "body"),
    ("both", True, "body"),
    ("clear", False, "none"),
)
# The queue for copies of messages that go to several queues.
COPIES: Final = "copies"
_FOREVER: Final = 1_000_000
# Some work of a key desk takes so many times longer.
SLOWER: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrecy:
    """Draws of a seed about keys.

    `signed`, `encrypted` and `copied` are shares of messages; those that are copied go to several queues. `rotations`
    and `certificates` are rates of changes with each operation, `graces` and `validities` seconds, `lag` the longest
    time until another host knows of a change. `late` is the share of pins and registrations that are not there at the
    start. A key desk answers after `delay` seconds on average and fails at the rate `failures`.
    """

    is_on: bool = False
    signed: float = 0.0
    copied: float = 0.0
    encrypted: float = 0.0
    rotations: float = 0.0
    graces: tuple[int, ...] = (0,)
    certificates: float = 0.0
    validities: tuple[int, ...] = (_FOREVER,)
    lag: float = 0.0
    late: float = 0.0
    delay: float = 0.0
    failures: float = 0.0

    @property
    def slowest(self) -> float:
        """The longest time that a key desk takes."""
        return 2 * SLOWER * self.delay

    def adapted(self, swarm: Swarm, rng: Random) -> Swarm:
        """The swarm with queues that demand or exclude protection."""
        if not self.is_on:
            return swarm
        plans = list(swarm.plans)
        for host in swarm.hosts:
            plans.append(Plan(COPIES, host=host))
            for key, authenticates, privacy in rng.sample(_QUEUES, rng.randint(1, 2)):
                is_transactional = rng.random() < 0.5
                plans.append(
                    Plan(key, host=host, transactional=is_transactional, authenticates=authenticates, privacy=privacy)
                )
        return replace(swarm, plans=tuple(plans))


def draw(rng: Random) -> Secrecy:
    if rng.random() >= _WITH_KEYS:
        return Secrecy()
    return Secrecy(
        is_on=True,
        signed=rng.choice((0.2, 0.5, 0.8)),
        copied=rng.choice((0.0, 0.2)),
        encrypted=rng.choice((0.2, 0.5, 0.8)),
        rotations=rng.choice((0.0, 0.01, 0.04)),
        graces=rng.choice(((0,), (1, 5), (0, 2, 60))),
        certificates=rng.choice((0.0, 0.02, 0.06)),
        validities=rng.choice(((_FOREVER,), (_FOREVER, 3, 10), (5, 20))),
        lag=rng.choice((0.0, 0.5, 3.0, 15.0)),
        late=rng.choice((0.0, 0.2)),
        delay=rng.choice((0.0, 0.001, 0.02, 0.3)),
        failures=rng.choice((0.0, 0.0, 0.05, 0.2)),
    )


def protection(secrecy: Secrecy, rng: Random, plan: Plan, own: list[str]) -> dict[str, Any]:
    """Properties of a message to this queue: mostly what it demands. `own` are digests of certificates."""
    given: dict[str, Any] = {}
    if rng.random() < (0.85 if plan.authenticates else secrecy.signed):
        given |= {"sign": True, "signature": rng.choice((None, 1, 2)), "hash": rng.choice(_HASHES)}
        if own and rng.random() < 0.3:
            given["certificate"] = rng.choice(own)
    encrypted = {"body": 0.85, "none": 0.1}.get(plan.privacy, secrecy.encrypted)
    if rng.random() < encrypted:
        given |= {"encrypt": True, "algorithm": rng.choice(_ALGORITHMS)}
    return given


def fits(message: PlannedMessage, plan: Plan) -> bool:
    """Whether the queue accepts messages with this protection."""
    properties = message.properties
    if plan.authenticates and not properties.sign:
        return False
    return not plan.privacy or properties.encrypt == (plan.privacy == "body")
