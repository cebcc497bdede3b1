"""Where models come from: an adapter over pydantic-ai's providers, and the JSON answer that a plan may ask for."""
