"""The version of the package, and of the library that is built for it."""

__version__ = "0.1.0"
