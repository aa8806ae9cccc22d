"""Joins source topics into a changelog on Spark in Real-time Mode. Independent of the tables."""
