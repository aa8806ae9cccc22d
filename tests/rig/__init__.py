"""What the tests share: real processes, real producers that remember what was acknowledged, and oracles."""
