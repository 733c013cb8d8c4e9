"""Turn a container's command into vLLM's options.

`launcher` finds vLLM's own words in a command, with `vllm_command`, `python_command`, `env_options`, `shell_options`,
`xargs_options` and the names in `programs` and `container_programs`. `environment` tracks how the programs before them
change the variables. `installation` finds the programs that replace the image's vLLM, and `code_variables` the
variables that do. `pip_command` reads what pip installs, with `installer_options` and `requirement`, and
`script_installations` finds whether that reaches a server.
`own_arguments` finds vLLM's words where no program comes before them, without importing `launcher`.
`kubernetes_references` expands `$(NAME)` first. `arguments` parses the words into a `parse_result`: `config_file`
inserts the `--config` file, `flags` finds the flag of a word, `flag_arguments` and `flag_values` read its value, and
`dotted_options`, `speculative_flags`, `positional_words`, `unknown_flags` and `unknown_words` each read one kind of
word. `relevant_options` names the options that facts depend on, and `word_places` turns the place of a word into a
JSON pointer.

`shell` parses scripts: `command_builder` builds `words`, `parameter_expansion` and `brackets` expand what follows `$`,
`redirections` and `here_documents` read what follows `<` and `>`, and `script_variables`, `positional_parameters`,
`control_flow` and `shell_builtins` (with its tables in `builtin_tables`) track what a script changes. `script_commands`
holds the result, `script_context` the enclosing scripts, and `expansion` the limits. `certain_scripts` checks whether a
script is certainly parsed as shells run it.
"""
