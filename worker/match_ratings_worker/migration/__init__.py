"""Bringing the players of an existing rater over, and comparing its changes with this one's."""
