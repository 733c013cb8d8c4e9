/** The changes of a remedy, made in a request so that it can be decided again. */

import type { Change } from "../api";
import { shown } from "../remedy_text";
import { isObject, type DecisionRequest } from "./input";

/** The request with a change, or `null` if the page cannot make it there. */
export function changed(request: DecisionRequest, change: Change): DecisionRequest | null {
  if (change.field === "vllm_version") return { ...request, vllm_version: change.to };
  if (change.fact !== undefined && isObject(request.facts)) {
    return { ...request, facts: withFact(request.facts, change.fact.split("."), change.to) };
  }
  const deployment = request.deployment;
  if (!isObject(deployment)) return null;
  if (change.variable !== undefined) {
    const env = { ...(isObject(deployment.env) ? deployment.env : {}) };
    if (change.to === null) env[change.variable] = null;
    else env[change.variable] = shown(change.to);
    return { ...request, deployment: { ...deployment, env: withoutNulls(env) } };
  }
  if (change.argument === undefined || change.argument.includes(".")) return null;
  const args = withArgument(deployment.args, change.argument, change.to);
  return args === null ? null : { ...request, deployment: { ...deployment, args } };
}

/** The request with several changes, or `null` if one of them cannot be made. */
export function withChanges(request: DecisionRequest, changes: readonly Change[]): DecisionRequest | null {
  return changes.reduce<DecisionRequest | null>((found, change) => found && changed(found, change), request);
}

function withFact(facts: Record<string, unknown>, path: string[], value: unknown): Record<string, unknown> {
  const [name = "", ...rest] = path;
  const found = { ...facts };
  if (rest.length > 0) found[name] = withFact(isObject(found[name]) ? found[name] : {}, rest, value);
  else if (value === null) Reflect.deleteProperty(found, name);
  else found[name] = value;
  return found;
}

function withoutNulls(values: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null));
}

function withArgument(args: unknown, flag: string, value: unknown): unknown {
  const added = value === null ? [] : value === true ? [flag] : [flag, shown(value)];
  if (Array.isArray(args)) {
    const words = args.map(String);
    const at = words.findLastIndex((word) => word === flag || word.startsWith(`${flag}=`));
    if (at < 0) return [...words, ...added];
    const next = words[at + 1];
    const takesNext = words[at] === flag && next !== undefined && !next.startsWith("-");
    return [...words.slice(0, at), ...added, ...words.slice(at + (takesNext ? 2 : 1))];
  }
  if (typeof args !== "string") return null;
  const at = args.search(new RegExp(`(?<=\\s)${flag}(?=[=\\s]|$)`));
  const text = added.map((word) => (/^[\w./:=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
  if (at < 0) return `${args.trimEnd()} ${text}`;
  const end = at + flag.length;
  const written = /^(?:=|\s+(?!-))(?:'[^']*'|"(?:[^"\\]|\\.)*"|[^\s'"]+)/.exec(args.slice(end));
  return `${args.slice(0, at)}${text}${args.slice(end + (written?.[0].length ?? 0))}`;
}
