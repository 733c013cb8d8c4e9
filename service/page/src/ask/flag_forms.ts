/** How people write vLLM's flags: with dashes or underscores, short, negated, and with a member (`--flag.member`). */

/** The short forms of flags in any release. */
export const SHORT: ReadonlyMap<string, readonly string[]> = new Map([
  ["--api-server-count", ["-asc"]],
  ["--attention-config", ["-ac"]],
  ["--compilation-config", ["-cc", "-O"]],
  ["--data-parallel-address", ["-dpa"]],
  ["--data-parallel-backend", ["-dpb"]],
  ["--data-parallel-external-lb", ["-dpe"]],
  ["--data-parallel-hybrid-lb", ["-dph"]],
  ["--data-parallel-multi-port-external-lb", ["-dpm"]],
  ["--data-parallel-rank", ["-dpn"]],
  ["--data-parallel-rpc-port", ["-dpp"]],
  ["--data-parallel-size", ["-dp"]],
  ["--data-parallel-size-local", ["-dpl"]],
  ["--data-parallel-start-rank", ["-dpr"]],
  ["--decode-context-parallel-size", ["-dcp"]],
  ["--diffusion-config", ["-dc"]],
  ["--enable-expert-parallel", ["-ep"]],
  ["--nnodes", ["-n"]],
  ["--node-rank", ["-r"]],
  ["--optimization-level", ["-O"]],
  ["--pipeline-parallel-size", ["-pp"]],
  ["--prefill-context-parallel-size", ["-pcp"]],
  ["--quantization", ["-q"]],
  ["--speculative-config", ["-sc"]],
  ["--tensor-parallel-size", ["-tp"]],
]);
/** The long names of flags that are neither negated nor abbreviated. */
const OTHER_NAMES: ReadonlyMap<string, readonly string[]> = new Map([
  ["--gpu-memory-utilization", ["--device-memory-utilization"]],
]);
/** Those to which a value may be joined, as in `-O3`. */
const JOINED = new Set(["-O", "-q"]);

/** A word that is a flag. */
interface WrittenFlag {
  /** The members after its name; empty if it has none. */
  readonly path: readonly string[];
  /** The value in the same word, and how the word begins before it; `null` if it has none. */
  readonly joined: { readonly head: string; readonly value: string } | null;
  /** Whether it sets the flag to false. */
  readonly isNegated: boolean;
}

/** What a word says of a flag; `null` if it is not this flag. */
export function writtenFlag(word: string, flag: string): WrittenFlag | null {
  if (!word.startsWith("-")) return null;
  const forms = SHORT.get(flag) ?? [];
  const short = forms.find((each) => JOINED.has(each) && word.startsWith(each) && /^[^=.]/.test(word.slice(2)));
  if (short !== undefined) return { path: [], joined: { head: short, value: word.slice(2) }, isNegated: false };
  const equals = word.indexOf("=");
  const whole = equals < 0 ? word : word.slice(0, equals);
  const [name = "", ...path] = whole.split(".");
  const dashed = name.startsWith("--") ? name.replaceAll("_", "-") : name;
  const isNegated = dashed === `--no-${flag.slice(2)}`;
  if (dashed !== flag && !forms.includes(dashed) && !isNegated) return null;
  const joined = equals < 0 ? null : { head: word.slice(0, equals + 1), value: word.slice(equals + 1) };
  return { path, joined, isNegated };
}

/** Whether a word is a flag, an abbreviation of it, or another name of it. */
export function mayMean(word: string, flag: string): boolean {
  const written = (word.split(/[=.]/, 1)[0] ?? "").replaceAll("_", "-");
  const name = flag.slice(2);
  const opposite = name.replace(/^(?:enable|disable)-/, (first) => (first === "enable-" ? "disable-" : "enable-"));
  const names = [flag, `--no-${name}`, `--${opposite}`, `--no-${opposite}`, ...(OTHER_NAMES.get(flag) ?? [])];
  return written.length > 2 && names.some((each) => each.startsWith(written));
}

/** Whether a word may be the value of the flag before it. */
export function isValue(word: string | undefined): word is string {
  return word !== undefined && !/^-(?![\d.]|$)/.test(word);
}
