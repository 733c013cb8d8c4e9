// A controller that is compiled but not run: every field that it reads must be in the OpenAPI document.
import createClient from "openapi-fetch";

import type { components, operations, paths } from "./schema.js";

type Runner = components["schemas"]["Runner"];
type Equal<A, B> = [A, B] extends [B, A] ? true : never;

const runners: Equal<Runner, "v1" | "v2"> = true;
const outcomes: Equal<
  components["schemas"]["Outcome"],
  "not-applicable" | "override" | "required" | "default" | "not-default" | "fallback"
> = true;
const operationIds: Equal<
  keyof operations,
  | "decide"
  | "decideBatch"
  | "dryRun"
  | "compareReleases"
  | "checkRequest"
  | "checkRequests"
  | "reviewAdmission"
  | "mutateAdmission"
  | "getPolicy"
  | "listRules"
  | "getRule"
  | "listReleases"
  | "listImages"
  | "listArguments"
  | "getSchema"
  | "listFacts"
  | "queryLog"
  | "getDecision"
  | "getMetrics"
  | "getLiveness"
  | "getReadiness"
  | "getLanding"
> = true;

export async function plan(service: string, token: string): Promise<Record<string, string> | null> {
  const client = createClient<paths, "application/json" | "application/problem+json">({
    baseUrl: service,
    headers: { authorization: `Bearer ${token}` },
  });
  const { data, error } = await client.POST("/v1/decisions", {
    body: {
      vllm_version: "0.23.0",
      deployment: {
        args: ["serve", "Qwen/Qwen3-8B", "-tp", "2"],
        model_configs: { "Qwen/Qwen3-8B": { architectures: ["Qwen3ForCausalLM"], model_type: "qwen3" } },
        environment: { platform: "rocm", has_triton: null },
      },
    },
  });
  if (error) {
    throw new Error(`${error.type satisfies components["schemas"]["ProblemType"]}: ${error.detail}`);
  }
  if ("items" in data) {
    throw new Error("a deployment has one decision");
  }
  const runner: Runner | null = data.runner;
  return runner !== null && data.starts ? data.set_env : null;
}

// The deployments that stop starting with a release, by name.
export async function blocked(service: string, release: string, manifest: Record<string, unknown>): Promise<string[]> {
  const client = createClient<paths, "application/json" | "application/problem+json">({ baseUrl: service });
  const { data, error } = await client.POST("/v1/impact", { body: { deployments: [{ manifest }], to: release } });
  if (error) {
    throw new Error(error.detail);
  }
  return data.items.flatMap((item) => {
    if ("problem" in item) {
      return [`${item.name}: ${item.problem.detail}`];
    }
    const last = item.releases[release];
    const errors = last && "starts" in last ? [...last.startup_errors, ...last.launch_errors] : [];
    return item.kind === "no-start" || item.kind === "launch-error" ? [`${item.name}: ${errors.join("; ")}`] : [];
  });
}

export { operationIds, outcomes, runners };
