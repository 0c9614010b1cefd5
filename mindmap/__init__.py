"""The agent's map of plan, mental model and touched files; it is built in later versions."""
