"""House style and general figures; matplotlib only."""
