"""From surface points to colours: materials, lights and their reflection."""
