/** Asks for the decision of a request; a manifest with more engines than one request may have is sent in parts. */

import { type Answer, type Decision, type Engines, isProblem, post, type Problem } from "../api";
import { isObject } from "../member";
import type { DecisionRequest } from "./input";

/** The most objects of a manifest that are sent as one. */
const MAX_OBJECTS = 1000;
/** The kinds to which engines of every part may refer: those that the service collects first. */
const SHARED_KINDS = new Set([
  "BackendRuntime",
  "BaseModel",
  "ClusterBaseModel",
  "ClusterServingRuntime",
  "ConfigMap",
  "HelmChart",
  "HelmChartConfig",
  "LLMInferenceServiceConfig",
  "OpenModel",
  "Secret",
  "Service",
  "ServingRuntime",
]);

/** Whether others of a manifest may refer to an object, also if it is an engine itself. */
export function isShared(object: unknown): boolean {
  return isObject(object) && SHARED_KINDS.has(String(object.kind));
}

const INDEX = /^((?:items)?)\[(\d+)\]/;

interface Chunk {
  readonly request: DecisionRequest;
  /** The places of its objects in the whole manifest, and how many of the first are shared by all. */
  readonly places: readonly number[];
  readonly shared: number;
}

/** The answer to a request, or to a text that the service reads itself. */
export async function decide(body: DecisionRequest | string, signal: AbortSignal): Promise<Answer<Decision | Engines>> {
  const chunks = typeof body === "string" ? [] : chunksOf(body);
  if (chunks.length < 2) return post<Decision | Engines>("v1/decisions", body, signal);
  const items = chunks.map((chunk) => chunk.request);
  const answer = await post<{ items: (Engines | Problem)[] }>("v1/decisions/batch", { items }, signal);
  if ("problem" in answer) return answer;
  const found: Engines[] = [];
  for (const [n, each] of answer.value.items.entries()) {
    if (isProblem(each)) return { problem: each };
    const chunk = chunks[n];
    if (chunk !== undefined) found.push(inWhole(each, chunk, n === 0));
  }
  return {
    value: {
      items: found.flatMap((each) => each.items),
      ignored: found.flatMap((each) => each.ignored ?? []),
      warnings: [...new Set(found.flatMap((each) => each.warnings ?? []))],
    },
  };
}

function chunksOf(request: DecisionRequest): Chunk[] {
  const { manifest } = request;
  const inItems = isObject(manifest) && Array.isArray(manifest.items);
  const objects: unknown = inItems ? manifest.items : manifest;
  if (!Array.isArray(objects) || objects.length <= MAX_OBJECTS) return [];
  const all = [...(objects as unknown[]).entries()];
  const shared = all.filter(([, object]) => isShared(object));
  const others = all.filter(([, object]) => !isShared(object));
  const chunks: Chunk[] = [];
  for (let start = 0; start < others.length; start += MAX_OBJECTS) {
    const own = [...shared, ...others.slice(start, start + MAX_OBJECTS)];
    const part = own.map(([, object]) => object);
    chunks.push({
      request: { ...request, manifest: inItems ? { ...manifest, items: part } : part },
      places: own.map(([place]) => place),
      shared: shared.length,
    });
  }
  return chunks;
}

/** The answer to a chunk with the paths that it has in the whole; what is shared is only in the first. */
function inWhole(answer: Engines, { places, shared }: Chunk, isFirst: boolean): Engines {
  const moved = <T extends { readonly path: string }>(each: T): T[] => {
    const found = INDEX.exec(each.path);
    const index = Number(found?.[2] ?? 0);
    if (found === null || (!isFirst && index < shared)) return isFirst ? [each] : [];
    const place = places[index] ?? index;
    return [{ ...each, path: `${found[1] ?? ""}[${place.toString()}]${each.path.slice(found[0].length)}` }];
  };
  return {
    ...answer,
    items: answer.items.flatMap(moved),
    ...(answer.ignored === undefined ? {} : { ignored: answer.ignored.flatMap(moved) }),
  };
}
