"""The repository's root, from which tests find documents, examples and programs."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
