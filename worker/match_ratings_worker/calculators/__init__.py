"""What a match, or a list of games, would change."""
