"""What it means: fold, project, settled and next. Pure; no clock is read and nothing is done."""
