"""What is written: header, control intents, facts, evidence, and their strict codec. Pure."""
