"""Source topics to changelog, on Spark in Real-time Mode. Knows nothing of tables or viewers."""
