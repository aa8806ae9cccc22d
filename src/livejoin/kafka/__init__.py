"""Kafka clients: properties, topics, reading, writing. Knows nothing of what the records mean."""
