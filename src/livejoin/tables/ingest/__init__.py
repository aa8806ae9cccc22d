"""Kafka to memory: follows the ledger, the log and the changelogs, and keeps the tables."""
