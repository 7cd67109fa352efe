"""The jobs of the arq worker, their requests and their serializer, and its settings class."""
