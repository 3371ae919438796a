"""What a fit is given and what it gives: pictures of views, progress, the result."""
