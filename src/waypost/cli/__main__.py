"""`python -m waypost.cli`, where the script is not on the path."""

from waypost.cli import main

main()
