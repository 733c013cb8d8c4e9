"""From a container's command to the options of vLLM.

`launcher` finds vLLM's own words in a command, with `vllm_command`, `python_command`, `env_options`, `shell_options`,
`xargs_options` and the names in `programs`; `environment` has what the programs before it do to the variables, and
`installation` which of them replace the image's vLLM. `kubernetes_references` expands `$(NAME)` before that.
`arguments` parses the words, with `flags`, `flag_values` and `config_file`.

`shell` reads the scripts among them: `command_builder` makes `words`, `parameter_expansion` and `brackets` expand what
follows `$`, and `script_variables`, `positional_parameters`, `control_flow` and `shell_builtins` (with its tables in
`builtin_tables`) follow what a script changes. `script_commands` has the result, `script_context` what is around it,
and `expansion` the limits.
"""
