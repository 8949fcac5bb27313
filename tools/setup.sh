#!/bin/sh
# Makes the virtual environment VENV with PYTHON and installs Waypost into it, editable, with its development tools.
# The Makefile calls this when pyproject.toml is newer than the last installation. Usage: tools/setup.sh PYTHON VENV
set -eu
python=$1
venv=$2

fail() {
    echo "waypost: $1" >&2
    exit 1
}

quietly() {
    output=$("$@" 2>&1) || {
        echo "$output" >&2
        return 1
    }
}

can_make_venv() {
    "$python" -c 'import ensurepip, venv' 2>/dev/null
}

# Debian and Ubuntu keep ensurepip, without which there is no virtual environment, in a package of its own.
install_ensurepip() {
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    lack="$python cannot make virtual environments, because its module ensurepip is missing"
    sudo=
    command -v apt-get >/dev/null || fail "$lack. Install that module, then type the same again."
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || fail "$lack. Type as root: apt-get install $package"
        sudo=sudo
    fi
    echo "Installing $package with apt-get, because $python cannot make virtual environments without it ..."
    quietly $sudo apt-get -q update || true
    quietly $sudo env DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends "$package" ||
        fail "$lack. Type: ${sudo:+sudo }apt-get install $package"
    can_make_venv || fail "$lack, and $package did not bring it. Name another: make PYTHON=python3.12"
}

# What tells one interpreter from another; a virtual environment says the same as its interpreter.
identity() {
    "$1" -c 'import sys; print(sys.version, sys.base_prefix)' 2>/dev/null
}

command -v "$python" >/dev/null || fail "there is no $python. Install Python 3.11 or later, or name it: make PYTHON=python3.12"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$("$python" -V 2>&1) is too old, it must be 3.11 or later. Name a newer one: make PYTHON=python3.12"
can_make_venv || install_ensurepip

echo "Installing Waypost and its tools into $venv (once; Spark alone is 450 MB, so this takes some minutes) ..."
if [ "$(identity "$venv/bin/python")" != "$(identity "$python")" ] || ! "$venv/bin/python" -c 'import pip' 2>/dev/null; then
    "$python" -m venv --clear "$venv"
fi
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --editable '.[dev]' ||
    fail "pip could not install Waypost; the lines above say why. Then type the same again."
