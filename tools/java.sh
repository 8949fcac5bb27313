#!/bin/sh
# Finds the Java that Spark needs. If there is none, installs one into VENV (the extra `jre`), or else with apt-get.
# The Makefile calls this. Usage: tools/java.sh PYTHON VENV
set -eu
python=$1
venv=$2
here=$(dirname "$0")

has_java() {
    "$venv/bin/python" -c 'from waypost.spark.java import find_java; find_java()' 2>/dev/null
}

has_java && exit
"$here/setup.sh" "$python" "$venv" "a Java for Spark (100 MB)" jre || true
has_java && exit
"$here/apt.sh" openjdk-17-jre-headless "Spark needs Java 17 or later, and none was found"
has_java || {
    echo "waypost: Spark needs Java 17 or later, and none was found. Install one, or name its folder in JAVA_HOME." >&2
    exit 1
}
