"""Settings: schema, sources and validation."""
