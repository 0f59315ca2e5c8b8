"""The routes below /api/v1/, one noun to a file. Thin: they read by selectors, write by services, and show rows."""
