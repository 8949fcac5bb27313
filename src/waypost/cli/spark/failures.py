"""Failures of Spark in one sentence: that of our error if one is the cause, otherwise the first words of Spark."""

import re
from pathlib import Path
from typing import Final

from waypost import errors
from waypost.cli.daemon import failure
from waypost.cli.program import Failure
from waypost.errors import WaypostError

# One of our errors at the end of a Python traceback, which Java passes on as text.
_OURS: Final = re.compile(r"^(?:\w+Error: )?waypost(?:\.\w+)*\.([A-Z]\w*): (.+)$", re.MULTILINE)
_PYTHON: Final = re.compile(r"^(?:[\w.]+\.)?([A-Z]\w*(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)
_CAUSE: Final = re.compile(r"^(?:Caused by)?: (?:[\w.$]+\.)?([\w$]+(?:Exception|Error)): (.+)$", re.MULTILINE)
_CONDITION: Final = re.compile(r"^\[[\w.]+\] ")
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+.*$", re.DOTALL)
_LONGEST: Final = 300


def failure_of(error: Exception, log: Path | None) -> Failure:
    """The Failure for an error of Spark. `log` is the file with the output of Java."""
    if isinstance(error, WaypostError):
        return not_available(error) if type(error).__name__ == "SparkNotAvailable" else failure(error)
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        return failure(_rebuilt(*ours[-1]))
    hint = (
        f"{log} contains more output of Spark."
        if log is not None
        else "--conf spark.log.level=INFO shows more of the Spark log."
    )
    if "JAVA_GATEWAY_EXITED" in text:
        return Failure("Spark cannot start, because Java did not start.", hint)
    return Failure(f"Spark failed: {_words(text)}", hint)


def not_available(error: WaypostError) -> Failure:
    """Spark or Java is missing. The second half of the sentence says what to do."""
    sentence, _, hint = str(error).partition("; ")
    return Failure(
        f"{sentence[:1].upper()}{sentence[1:]}.", f"{hint or 'docs/spark.md lists the requirements of Spark'}."
    )


def _rebuilt(name: str, sentence: str) -> WaypostError:
    """The error that a worker raised, as far as its text shows it."""
    kind = getattr(errors, name, WaypostError)
    try:
        found = kind(sentence)
    except TypeError:
        # It is made of parts, and the sentence has them all.
        found = WaypostError(sentence)
    return found if isinstance(found, WaypostError) else WaypostError(sentence)


def _words(text: str) -> str:
    """One sentence of many lines, without numbers of conditions and without traces."""
    causes = _PYTHON.findall(text) or _CAUSE.findall(text)
    found = causes[-1][1] if causes and not _CONDITION.match(text) else text.strip().partition("\n")[0]
    found = _STATE.sub("", _CONDITION.sub("", found)).strip() or "no reason given"
    found = found if len(found) <= _LONGEST else f"{found[:_LONGEST]}..."
    return found if found.endswith((".", "?", "!")) else f"{found}."
