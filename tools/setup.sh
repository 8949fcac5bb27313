#!/bin/sh
# Installs Waypost into the virtual environment VENV, editable, with extras of pyproject.toml such as spark or dev,bench.
# Makes VENV with PYTHON first if it is missing or belongs to another Python. Uses uv if it is installed, else pip.
# The Makefile calls this when pyproject.toml is newer than the last installation.
# Usage: tools/setup.sh PYTHON VENV WHAT [EXTRAS]
set -eu
python=$1
venv=$2
what=$3
target=.${4:+[$4]}
here=$(dirname "$0")

fail() {
    echo "waypost: $1" >&2
    exit 1
}

can_make_venv() {
    "$python" -c 'import ensurepip, venv' 2>/dev/null
}

# Debian and Ubuntu have ensurepip, which puts pip into a virtual environment, in a separate package.
install_ensurepip() {
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    "$here/apt.sh" "$package" "$python cannot make virtual environments, because its module ensurepip is missing"
    can_make_venv || fail "$python has no module ensurepip, even with $package. Name another Python: make PYTHON=python3.12"
}

# The same for a virtual environment and the interpreter that made it, and different for any other interpreter.
identity() {
    "$1" -c 'import sys; print(sys.version, sys.base_prefix)' 2>/dev/null
}

# uv does not read the configuration of pip, so it may not find an index. pip is tried then, and says what is wrong.
with_uv() {
    command -v uv >/dev/null || return 1
    {
        { [ "$is_fitting" = yes ] || uv venv --clear --python "$python" "$venv"; } &&
            uv pip install --python "$venv/bin/python" --editable "$target"
    } >/dev/null 2>&1 || {
        echo "uv did not succeed; trying pip ..."
        return 1
    }
}

with_pip() {
    can_make_venv || install_ensurepip
    if [ "$is_fitting" = no ] || ! "$venv/bin/python" -c 'import pip' 2>/dev/null; then
        "$python" -m venv --clear "$venv"
    fi
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check --editable "$target"
}

command -v "$python" >/dev/null || fail "$python is not installed. Install Python 3.11 or later, or name it: make PYTHON=python3.12"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$("$python" -V 2>&1) is too old: it must be 3.11 or later. Name a newer one: make PYTHON=python3.12"

is_fitting=no
[ "$(identity "$venv/bin/python")" != "$(identity "$python")" ] || is_fitting=yes
echo "Installing $what into $venv (once) ..."
with_uv || with_pip || fail "$what could not be installed; the lines above say why. Then type the same again."
