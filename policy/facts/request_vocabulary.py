"""The facts of a single request to an engine, which only the rules of ``rules/upstream/requests/`` may read.

Owns their names, kinds, defaults and meanings, as rows for ``vocabulary``. Those below ``request`` have the names of
vLLM's ``SamplingParams`` and ``PoolingParams``; of a list only its length counts. Those below ``engine`` are what vLLM
compares them with: its limits, as they follow from a deployment.
"""

from __future__ import annotations

from typing import Any, Final

APIS: Final = ("sampling_params", "beam_search_params", "pooling_params", "chat", "completion", "pooling")
"""The forms of a request: vLLM's own classes, or the body of an OpenAI-style call."""

NUMBERS: Final = {
    "n": "outputs for a prompt",
    "temperature": "how random sampling is; 0 is greedy",
    "top_p": "the probability of the tokens that are considered",
    "top_k": "how many tokens are considered; 0 or -1 for all",
    "min_p": "the least probability of a token, relative to the most likely one",
    "presence_penalty": "the penalty for tokens that occurred",
    "frequency_penalty": "the penalty for tokens by how often they occurred",
    "repetition_penalty": "the factor for tokens that occurred",
    "max_tokens": "the most tokens to generate",
    "min_tokens": "the fewest tokens to generate before a stop token may end the output",
    "min_tokens_over_max": "`min_tokens` minus `max_tokens`",
    "logprobs": "log probabilities for each output token; -1 for the whole vocabulary",
    "prompt_logprobs": "log probabilities for each prompt token; -1 for the whole vocabulary",
    "logprobs_over_max": "`logprobs` minus `engine.max_logprobs`, both resolved if they are -1",
    "prompt_logprobs_over_max": "`prompt_logprobs` minus `engine.max_logprobs`, both resolved if they are -1",
    "prompt_logprob_token_ids_over_max": "the number of `prompt_logprob_token_ids` minus `engine.max_logprobs`",
    "logprobs_over_token_ids": "`logprobs` minus the number of `logprob_token_ids`",
    "top_logprobs": "`top_logprobs` of a chat's body",
    "body_logprobs": "`logprobs` of a completion's body",
    "body_prompt_logprobs": "`prompt_logprobs` of a body, without what `echo` adds",
    "thinking_token_budget": "the most tokens for thinking; -1 for no limit",
    "stream_interval": "new tokens in each streamed output",
    "prompt_logprob_start": "the first prompt row to score",
    "beam_width": "beams of a beam search",
    "dimensions": "dimensions of the embedding",
}
COUNTS: Final = {
    "stop": "stop strings",
    "stop_token_ids": "stop token ids as sent",
    "all_stop_token_ids": "different stop token ids with the model's end tokens, which count too",
    "logit_bias": "tokens with a bias",
    "allowed_token_ids": "the only tokens that may come out, as sent",
    "bad_words": "words that may not come out, as sent",
    "distinct_bad_words": "different words that may not come out",
    "bad_words_bytes": "bytes of all different words that may not come out",
    "logprob_token_ids": "tokens whose log probabilities are returned",
    "prompt_logprob_token_ids": "tokens that are scored for each prompt row, of nested lists those of the longest row",
    "prompt_logprob_rows": "rows of nested `prompt_logprob_token_ids`; `null` if they are not nested",
    "trace_decode_token_ids": "tokens that the engine must emit",
    "structured_outputs": "kinds of constraint in `structured_outputs`",
    "structured_outputs_depth": "how deep objects and lists of the JSON schema nest",
}
FLAGS: Final = {
    "has_logprobs": "the body asks for log probabilities",
    "use_beam_search": "the body asks for a beam search",
    "echo_without_generation": "the body asks for its prompt and for no token",
    "stream_options_without_stream": "the body has `stream_options` though the answer is not streamed",
    "stop_has_empty": "a stop string is empty",
    "bad_words_have_empty": "a bad word is empty",
    "detokenize": "the output is made text",
    "ignore_eos": "the end token does not end the output",
    "uses_min_p": "`min_p` is above 0.00001, which is 0 for vLLM, and sampling is not greedy, which sets it to 0",
    "has_seed": "a seed is set",
    "echo": "the prompt is part of the answer",
    "stream": "the answer is streamed",
    "watermarking": "the request does not opt out of the engine's watermark",
    "watermarking_requested": "the request asks for the engine's watermark in so many words",
    "repetition_detection": "repetitions are detected",
    "prompt_embeds": "the prompt has embeddings",
    "trace_has_negative": "a token of `trace_decode_token_ids` is negative",
    "prompt_logprob_token_ids_repeat": "`prompt_logprob_token_ids` has a token twice",
    "logit_bias_clamped": "a bias of an OpenAI-style call is beyond ±100",
    "structured_choice_empty": "`choice` of `structured_outputs` is an empty list",
    "structured_grammar_empty": "`grammar` of `structured_outputs` is blank",
    "structured_json_empty": "`json` of `structured_outputs` is blank",
    "structured_json_object_false": "`json_object` of `structured_outputs` is false",
    "structured_tag_empty": "`structural_tag` of `structured_outputs` is blank",
    "structured_regex_has_nul": "`regex` of `structured_outputs` has a NUL character",
    "repetition_pattern_invalid": "the pattern sizes of `repetition_detection` are negative, or in the wrong order",
    "repetition_count_invalid": "`min_count` of `repetition_detection` is below 2 though patterns are looked for",
}
TEXT_LISTS: Final = {
    "unexpected": "parameters that the release's class does not have",
    "left_out": "fields of a body that the release's server does not have, so it leaves them out",
    "logit_bias_outside": "tokens of `logit_bias` outside the vocabulary",
    "allowed_token_ids_outside": "tokens of `allowed_token_ids` outside the vocabulary",
    "stop_token_ids_outside": "tokens of `stop_token_ids` outside the vocabulary",
    "logprob_token_ids_outside": "tokens of `logprob_token_ids` outside the vocabulary",
    "prompt_logprob_token_ids_outside": "tokens of `prompt_logprob_token_ids` outside the vocabulary",
    "trace_decode_token_ids_outside": "tokens of `trace_decode_token_ids` outside the vocabulary",
}
TASKS: Final = ("embed", "classify", "score", "token_embed", "token_classify", "embed&token_classify", "plugin")
ENGINE: Final = {
    "max_logprobs": ("number", 20, "the most log probabilities of a request (`--max-logprobs`), resolved if it is -1"),
    "vocab_size": ("number", None, "the size of the model's vocabulary; `null` if it is not known"),
    "max_num_sequences": ("number", 16384, "the largest `n` (variable `VLLM_MAX_N_SEQUENCES`)"),
    "max_num_bad_words": ("number", 128, "the most bad words from 0.28 on (variable `VLLM_MAX_NUM_BAD_WORDS`)"),
    "too_many_bad_words": ("number", 129, "one more than `engine.max_num_bad_words`, at which vLLM stops counting"),
    "bad_words_over_max": ("number", None, "different bad words minus `engine.max_num_bad_words`"),
    "n_over_max": ("number", None, "`n` or `beam_width` minus `engine.max_num_sequences`"),
    "has_tokenizer": ("boolean", True, "the engine has a tokenizer (not `--skip-tokenizer-init`)"),
}


def _rows() -> list[tuple[str, str, Any, str, tuple[str, ...]]]:
    rows: list[tuple[str, str, Any, str, tuple[str, ...]]] = [
        ("request.api", "choice", "sampling_params", "the form of the request", APIS),
        ("request.pooling_task", "choice", None, "the pooling task", TASKS),
        ("request.num_logprobs", "text", None, "`logprobs` as vLLM counts them, as a text", ()),
        ("request.num_prompt_logprobs", "text", None, "`prompt_logprobs` as vLLM counts them, as a text", ()),
        ("request.first_unexpected", "text", None, "the first of `request.unexpected`", ()),
    ]
    on = {"detokenize", "watermarking"}
    rows += [(f"request.{name}", "number", None, meaning, ()) for name, meaning in (NUMBERS | COUNTS).items()]
    rows += [(f"request.{name}", "boolean", name in on, meaning, ()) for name, meaning in FLAGS.items()]
    rows += [(f"request.{name}", "list of text", [], meaning, ()) for name, meaning in TEXT_LISTS.items()]
    rows += [(f"engine.{name}", kind, default, meaning, ()) for name, (kind, default, meaning) in ENGINE.items()]
    return rows


ROWS: Final = tuple(_rows())
"""Each fact's name, kind, default, meaning and choices."""
