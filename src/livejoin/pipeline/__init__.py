"""Source topics to changelog: Spark Structured Streaming in Real-time Mode. Knows nothing of tables or viewers."""
