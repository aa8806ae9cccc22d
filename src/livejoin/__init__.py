"""livejoin: Kafka topics joined live on Spark, served as tables under names that never change."""

__version__ = "0.1.0"
