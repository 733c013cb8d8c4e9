"""From a container's command to the options of vLLM: shell, launcher, arguments, flags."""
