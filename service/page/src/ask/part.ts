/** The part of a manifest's request that decides one of its engines, so that it can be asked about alone. */

import { isObject } from "../member";
import { isShared } from "./decide";
import type { DecisionRequest } from "./input";

/** The most engines of a manifest that are sent together with the one that is asked about. */
const MAX_TOGETHER = 8;

export interface Part {
  readonly request: DecisionRequest;
  /** The engine's path in it; empty for a request that is no manifest. */
  readonly path: string;
}

/** The part with the engine at a path. */
export function partOf(request: DecisionRequest, path: string, engines: readonly string[]): Part {
  return path === "" ? { request, path } : withoutOthers(request, path, engines);
}

/** The request without the objects of other engines, if there are many: what an engine refers to stays. */
function withoutOthers(request: DecisionRequest, path: string, engines: readonly string[]): Part {
  const { manifest } = request;
  const found = /^(items)?\[(\d+)\]/.exec(path);
  const inItems = isObject(manifest) && Array.isArray(manifest.items);
  const objects: unknown = inItems ? manifest.items : manifest;
  if (engines.length <= MAX_TOGETHER || found === null || !Array.isArray(objects)) return { request, path };
  const own = Number(found[2]);
  const others = new Set(engines.map((each) => Number(/^(?:items)?\[(\d+)\]/.exec(each)?.[1] ?? -1)));
  const isKept = (object: unknown, n: number): boolean => n === own || !others.has(n) || isShared(object);
  const kept = objects.filter(isKept) as unknown[];
  const place = objects.slice(0, own).filter(isKept).length;
  const name = found[1] ?? "";
  return {
    request: { ...request, manifest: inItems ? { ...manifest, items: kept } : kept },
    path: `${name}[${place.toString()}]${path.slice(found[0].length)}`,
  };
}
