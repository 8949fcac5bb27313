"""What the project needs to build and judge itself. Not part of the package."""
