"""Programs to build and check the project. Not part of the package."""
