"""The settings that a ladder is rated by: adopted ones, their history, and what a change would mean."""
