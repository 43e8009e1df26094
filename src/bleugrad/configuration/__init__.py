"""Configuration: one frozen dataclass a stage, filled from a TOML file and overrides."""
