"""Kafka clients: properties, topics, reading, writing. Independent of what records mean."""
