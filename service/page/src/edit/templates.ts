/** Texts to begin a new rule with; each can be tried as it is. */

interface Template {
  readonly name: string;
  readonly rule: string;
  readonly cases: string;
}

const HOUSE = "# yaml-language-server: $schema=../house-rule.schema.json";
const CASES = "# yaml-language-server: $schema=../cases.schema.json";

function cases(id: string, given: string, other: string): string {
  return `${CASES}
rule: ${id}
cases:
  - name: what it is about
    vllm: [0.30.0]
    given: ${given}
    fires: true
  - name: a near miss
    vllm: [0.30.0]
    given: ${other}
    fires: false
  - name: the release before has no such rule
    vllm: [0.29.0]
    given: ${given}
    fires: false
`;
}

const DENSE = "{model_config: {architectures: [LlamaForCausalLM]}, parallel_config: {pipeline_parallel_size: 2}}";
const OTHER = "{model_config: {architectures: [LlamaForCausalLM]}}";

function rule(id: string, title: string, effect: string, fields: string, text: string): string {
  return `${HOUSE}
id: ${id}
title: ${title}
effect: ${effect}
owner: inference-platform
review_by: ${(new Date().getUTCFullYear() + 1).toString()}-06-30
blocked_by: what has to happen before the rule can go
why: >-
  What went wrong, where, and why this rule prevents it.
references:
  - https://github.com/vllm-project/vllm/issues/1
${fields}releases:
  - vllm: ">=0.30"
    ${text}
    when:
      parallel_config.pipeline_parallel_size: {at_least: 2}
`;
}

export const TEMPLATES: readonly Template[] = [
  {
    name: "keep deployments on V1",
    rule: rule("stay-on-v1", "Stays on V1", "fallback-v1", "", "message: this deployment stays on V1"),
    cases: cases("stay-on-v1", DENSE, OTHER),
  },
  {
    name: "force V2",
    rule: rule("goes-to-v2", "Goes to V2", "force-v2", "", "message: this deployment goes to V2"),
    cases: cases("goes-to-v2", DENSE, OTHER),
  },
  {
    name: "a warning",
    rule: rule("warns", "Warns", "advise", "", "text: what users should know"),
    cases: cases("warns", DENSE, OTHER),
  },
  {
    name: "a known problem",
    rule: rule(
      "known-problem-of-ours",
      "Goes wrong with V2",
      "known-problem",
      "runner: v2\nsymptom: slow\ncertainty: reproduced\n",
      "text: what goes wrong",
    ),
    cases: cases("known-problem-of-ours", DENSE, OTHER),
  },
  {
    name: "a limit on requests",
    rule: `# yaml-language-server: $schema=../../request-rule.schema.json
id: limit-of-ours
title: More bad words than a request may have
effect: request-refused
parameter: bad_words
why: >-
  What vLLM or the gateway refuses, and where.
remedy: what the client can do
references:
  - https://github.com/vllm-project/vllm/issues/1
releases:
  - vllm: ">=0.30"
    text: "too many bad words: {request.bad_words}"
    when:
      request.bad_words: {more_than: 64}
`,
    cases: `# yaml-language-server: $schema=../../request-cases.schema.json
rule: limit-of-ours
cases:
  - name: one too many
    vllm: [0.30.0]
    given: {request: {bad_words: 65}}
    fires: true
  - name: as many as there may be
    vllm: [0.30.0]
    given: {request: {bad_words: 64}}
    fires: false
  - name: the release before has no such rule
    vllm: [0.29.0]
    given: {request: {bad_words: 65}}
    fires: false
`,
  },
];
