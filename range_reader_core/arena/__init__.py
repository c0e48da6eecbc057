"""No-Limit Hold'em played by players of known styles, and the best possible read of their hands."""
