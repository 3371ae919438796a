"""What pages are made of: markup, charts, pictures, the model, the timeline of Stages."""
