"""The deployable project: settings, URLs, health and the demo. It wires; it decides nothing."""
