"""Code made by `python -m schemas.generate` from current_status.proto; never edited by hand."""
