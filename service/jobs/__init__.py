"""Worker processes for requests that may take long, which can be killed."""
