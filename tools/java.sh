#!/bin/sh
# Sees to the Java that Spark needs: where none is found, it is installed into VENV (the extra `jre`), nowhere else.
# The Makefile calls this. Usage: tools/java.sh VENV
set -eu
python=$1/bin/python

has_java() {
    "$python" -c 'from waypost.spark.java import find_java; find_java()' 2>/dev/null
}

has_java && exit
echo "Installing a Java into $1 (once), because Spark needs Java 17 or later and none was found ..."
"$python" -m pip install -qq --disable-pip-version-check --editable '.[jre]' || true
has_java || {
    echo "waypost: Spark needs Java 17 or later and none could be installed; type: apt-get install openjdk-17-jre-headless" >&2
    exit 1
}
