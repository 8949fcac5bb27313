"""Generator of docs/config.md from waypost.daemon.config: `python -m waypost.daemon.config_page docs/config.md`."""

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final, get_args, get_origin

from msgspec import Meta

from waypost.daemon.config import SECTIONS, Key, keys

_HEAD: Final = """\
# Configuration

`waypost serve` runs without a configuration file, because every key has a default. To change values, write a TOML file,
and specify it with `--config FILE` or in the environment variable WAYPOST_CONFIG.

You can set a key in four ways. If you set the same key in several ways, the last way in this list takes precedence:

1. Write `KEY = VALUE` below `[SECTION]` in the configuration file.
2. Set the environment variable WAYPOST_SECTION_KEY.
3. Use a flag of `waypost serve`, if the tables below show a flag for the key.
4. Use the option `--set SECTION.KEY=VALUE` of `waypost serve`. You can repeat this option.

In environment variables and with `--set`, separate the items of a list with commas, for example
`--set transfer.resend_timeouts_s=1,2,3,4`. An unknown key is an error. The error message suggests the most similar key.

This page is generated from the code (src/waypost/daemon/config.py). The default times in `[transfer]` are the same as
on Windows. [Remote read](remote-read.md) explains the sections `[rpc]` and `[remote]`.
"""

# A bound of this size is the limit of a 32-bit field, not worth showing.
_NO_BOUND: Final = 0xFFFF_FFFF

FLAGS: Final = {
    "store.path": "--data",
    "names.computer": "--name",
    "transfer.bind": "--bind",
    "transfer.port": "--transfer-port",
    "transfer.ping_port": "--ping-port",
    "rpc.port": "--rpc-port",
    "rpc.qm2qm_port": "--qm2qm-port",
    "http.port": "--http-port",
    "rpc.epm": "--epm",
}


def page() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _HEAD
    for section, group in groupby(keys(), lambda key: key.section):
        yield f"## [{section}]\n"
        yield f"{SECTIONS[section].__doc__}\n"
        yield "| key | value | default | |"
        yield "|---|---|---|---|"
        for key in group:
            flag = f" Flag: `{FLAGS[key.path]}`." if key.path in FLAGS else ""
            yield f"| `{key.name}` | {_type(key)} | {_default(key)} | {key.description}{flag} |"
        yield ""


def _type(key: Key) -> str:
    plain, *metas = get_args(key.type)
    bounds = "".join(_bounds(meta) for meta in metas)
    return f"{_words(plain)}{bounds}"


def _words(plain: Any) -> str:
    names = {str: "text", int: "integer", float: "number", bool: "true or false"}
    if plain in names:
        return names[plain]
    parts = get_args(plain)
    if get_origin(plain) is tuple:
        if Ellipsis not in parts:
            return f"list of {len(parts)} numbers"
        return "list of text" if parts[0] is str else f"list of {_words(parts[0])}"
    if str in parts:
        return "text or list of text"
    if all(isinstance(part, str) for part in parts):
        return ", ".join(f"`{part}`" if part else "empty" for part in parts)
    # An optional value.
    inner, *metas = get_args(parts[0])
    return f"{_words(inner)}{''.join(_bounds(meta) for meta in metas)}"


def _bounds(meta: Meta) -> str:
    low = f" above {meta.gt:g}" if meta.gt is not None else "" if meta.ge is None else f" from {meta.ge}"
    return low if meta.le is None or meta.le >= _NO_BOUND else f"{low} to {meta.le}"


def _default(key: Key) -> str:
    if key.default is None:
        return ""
    if isinstance(key.default, bool):
        return f"`{str(key.default).lower()}`"
    if isinstance(key.default, tuple):
        parts = (f'"{part}"' if isinstance(part, str) else f"{part:g}" for part in key.default)
        return f"`[{', '.join(parts)}]`"
    if isinstance(key.default, float):
        return f"`{key.default:g}`"
    return f'`"{key.default}"`' if isinstance(key.default, str) else f"`{key.default}`"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
