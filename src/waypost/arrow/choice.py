"""The choice of messages by their class and label, before their columns are decoded."""

import re
from dataclasses import dataclass
from importlib import import_module
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from waypost.arrow.packets import OnMalformed, Packets


@dataclass(frozen=True, slots=True)
class Choice:
    """Messages of these classes whose label matches this pattern. * matches any characters, ? matches one character.

    Without classes, and with an empty pattern, all messages are chosen. A malformed packet is always chosen.
    """

    classes: frozenset[int] = frozenset()
    label_pattern: str = ""

    def of(self, packets: Packets) -> Packets:
        """The chosen packets."""
        names = ["message_class"] * bool(self.classes) + ["label"] * bool(self.label_pattern)
        if not names or not len(packets):
            return packets
        # Imported here because it loads pandas, which planning a read does not need.
        decode = import_module("waypost.arrow.decoder").decode
        batch = decode(packets, names, on_malformed=OnMalformed.NULL)
        is_chosen = np.ones(len(packets), np.bool_)
        if self.classes:
            wanted = pa.array(sorted(self.classes), pa.int32())
            is_chosen &= _mask(pc.or_kleene(pc.is_in(batch["message_class"], wanted), batch["message_class"].is_null()))
        if self.label_pattern:
            is_chosen &= _mask(pc.match_substring_regex(batch["label"], _expression(self.label_pattern)))
        return packets if is_chosen.all() else packets.chosen(is_chosen)


EVERY: Final = Choice()


def _expression(pattern: str) -> str:
    parts = [{"*": ".*", "?": "."}.get(each) or re.escape(each) for each in pattern]
    return f"(?s)^{''.join(parts)}$"


def _mask(found: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = pc.fill_null(found, True).to_numpy(zero_copy_only=False)
    return mask
