"""Waypost: a message queue manager that speaks Microsoft Message Queuing (MSMQ) on the wire."""

__version__ = "0.1.0"
