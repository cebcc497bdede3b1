"""The planned fleet with one tool more: a newer build."""

from fleet.planned import app, registry

__all__ = ["app"]


@registry.tool
def newcomer() -> str:
    """Be there at last."""
    return "here"
