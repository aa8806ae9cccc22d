"""Changelogs to viewers: follows Kafka, keeps the tables in memory, serves them. Knows nothing of the pipeline."""
