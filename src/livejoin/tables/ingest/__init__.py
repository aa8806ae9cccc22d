"""Kafka to memory: follows ledger, log and changelogs, and keeps the tables."""
