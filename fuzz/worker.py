"""One target under libFuzzer until its first finding: `python -m fuzz.worker TARGET [libFuzzer's arguments]`."""

import sys

import atheris

# The coverage of the package is what guides the mutation, so it must be instrumented when it is first imported.
with atheris.instrument_imports(include=["waypost"]):
    from fuzz.targets import TARGETS

if __name__ == "__main__":
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()
