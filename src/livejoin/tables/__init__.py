"""Changelogs to viewers: follows Kafka, keeps tables, serves them. Knows nothing of pipelines."""
