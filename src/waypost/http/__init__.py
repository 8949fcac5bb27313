"""The queue manager over HTTP: the API in JSON and MessagePack, its OpenAPI document, metrics, health, events."""
