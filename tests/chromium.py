"""The Chromium that browser tests use: Debian's, or any other named by CHROMIUM."""

import os
import shutil

FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
]


def find_chromium() -> str | None:
    if path := os.environ.get("CHROMIUM"):
        return path if os.access(path, os.X_OK) else None
    for name in ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome"):
        if path := shutil.which(name):
            return path
    return None
