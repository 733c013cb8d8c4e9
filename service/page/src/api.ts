/** The service's endpoints, with the token of this tab. Owns what is sent and how a failure becomes a problem. */

import { jsonOf } from "./exact_number";
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Decision = Schemas["Decision"];
export type Reason = Schemas["Reason"];
export type KnownProblem = Schemas["KnownProblem"];
export type Remedy = Schemas["Remedy"];
export type AlternativeDecision = Schemas["AlternativeDecision"];
export type Change = Schemas["Change"];
export type Engine = Schemas["ManifestDecision"];
export type Engines = Schemas["ManifestDecisions"];
export type Problem = Pick<Schemas["Problem"], "title" | "detail"> & Partial<Schemas["Problem"]>;
export type Runner = Schemas["Runner"];
export type Rule = Schemas["Rule"];
export type RuleFile = Schemas["RuleFile"];
export type RequestRuleFile = Schemas["RequestRuleFile"];
export type RequestRuleCase = Schemas["RequestRuleCase"];
export type ConditionFile = Schemas["ConditionFile"];
export type Condition = Schemas["Condition"];
export type RequestRule = Schemas["RequestRule"];
export type RuleCase = Schemas["RuleCase"];
export type RuleCatalogue = Schemas["RuleCatalogue"];
export type FactDefinition = Schemas["FactDefinition"];
export type AffectedClass = Schemas["AffectedClass"];
export type AffectedRequests = Schemas["AffectedRequests"];
export type CaseOutcome = Schemas["CaseOutcome"];
export type DryRunOfAll = Schemas["DryRunComparisonOfAll"];
export type Answer<T> = { readonly value: T } | { readonly problem: Problem };

const TOKEN = "runner-policy-token";
/** The folder of the page's address, which is the service's, also behind a path prefix. */
const BASE = new URL(".", document.baseURI);

/** The token of this tab; empty if there is none. */
export function token(): string {
  return sessionStorage.getItem(TOKEN) ?? "";
}

/** Keeps a token until the tab is closed; an empty one removes it. */
export function keepToken(value: string): void {
  if (value === "") sessionStorage.removeItem(TOKEN);
  else sessionStorage.setItem(TOKEN, value);
}

/** Whether a text can be sent as a token: letters, digits and signs of ASCII. */
export function isToken(text: string): boolean {
  return /^[\x21-\x7e]+$/.test(text);
}

/** Whether a value is a problem of the service. */
export function isProblem(value: object): value is Problem {
  return "title" in value && "detail" in value && "status" in value;
}

/** A request with the headers that all have. */
function requestTo(path: string, init: RequestInit): Request {
  const headers = new Headers(init.headers);
  headers.set("accept", "application/json");
  if (token() !== "") headers.set("authorization", `Bearer ${token()}`);
  return new Request(new URL(path, BASE), { ...init, headers, credentials: "omit", cache: "no-store" });
}

/** The answer to a request; one that cannot be made or sent is a problem too, and only an aborted request throws. */
async function answerTo<T>(path: string, signal: AbortSignal, init: () => RequestInit): Promise<Answer<T>> {
  let request: Request;
  try {
    request = requestTo(path, { ...init(), signal });
  } catch (error) {
    const why = error instanceof Error ? error.message : "the browser does not say why";
    return {
      problem: {
        title: "The request cannot be made",
        detail: `${why}. Give the token again at “Token”, or change the text.`,
      },
    };
  }
  let response: Response;
  try {
    response = await fetch(request);
  } catch (error) {
    if (signal.aborted) throw error;
    return { problem: { title: "The service cannot be reached", detail: "Nothing was lost. Try again in a moment." } };
  }
  try {
    const value = (await response.json()) as T & object;
    return response.ok ? { value } : { problem: isProblem(value) ? value : unexpected(response) };
  } catch (error) {
    if (signal.aborted) throw error;
    return { problem: unexpected(response) };
  }
}

function unexpected(response: Response): Problem {
  const detail = `expected an answer of the service, got status ${response.status.toString()} from something else`;
  return { title: "The answer cannot be read", detail, status: response.status };
}

/** The answer of a read endpoint. */
export function get<T>(path: string, signal: AbortSignal): Promise<Answer<T>> {
  return answerTo<T>(path, signal, () => ({}));
}

/** The answer to a document; a text is sent as YAML, in which JSON is written as well. */
export function post<T>(path: string, body: object | string, signal: AbortSignal): Promise<Answer<T>> {
  const isText = typeof body === "string";
  const headers = { "content-type": isText ? "application/yaml" : "application/json" };
  return answerTo<T>(path, signal, () => ({ method: "POST", headers, body: isText ? body : jsonOf(body) }));
}
