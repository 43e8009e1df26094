"""Configuration: one frozen dataclass per stage, filled from a TOML file and overrides."""
