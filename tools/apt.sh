#!/bin/sh
# Installs a package of Debian or Ubuntu, as root or through sudo. Usage: tools/apt.sh PACKAGE REASON
set -eu
package=$1
reason=$2

fail() {
    echo "waypost: $reason. $1" >&2
    exit 1
}

quietly() {
    output=$("$@" 2>&1) || {
        echo "$output" >&2
        return 1
    }
}

command -v apt-get >/dev/null || fail "This computer has no apt-get: install it in another way, then type the same again."
sudo=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "Type as root: apt-get install $package"
    sudo=sudo
fi
echo "Installing $package with apt-get: $reason ..."
# A list of packages that is out of date may still do.
quietly $sudo apt-get -q update || true
quietly $sudo env DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends "$package" ||
    fail "Type: ${sudo:+sudo }apt-get install $package"
