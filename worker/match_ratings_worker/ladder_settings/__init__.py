"""The settings that a ladder is rated by: adopted ones, their history, and the risks of a change."""
