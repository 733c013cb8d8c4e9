/** Plain scalars of YAML as the service reads them, which is `policy/parser/scalars.py`. */

import { exact, isText } from "../exact_number";

const TRUE = ["true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"];
const FALSE = ["false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"];
const NULL = ["", "~", "null", "Null", "NULL"];
const CONSTANTS: ReadonlyMap<string, boolean | null> = new Map([
  ...TRUE.map((text) => [text, true] as const),
  ...FALSE.map((text) => [text, false] as const),
  ...NULL.map((text) => [text, null] as const),
]);
const NOT_FINITE = /^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/;
const INTEGER = /^([-+]?)(?:(0[xX][0-9a-fA-F]+|0[bB][01]+)|0[oO]?([0-7]+)|([0-9]+))$/;
const FLOAT = /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/;
/** The most characters of a number. */
const MAX_NUMBER = 64;

/** The value of a plain scalar; `undefined` for a number that the service refuses. */
export function scalarValue(written: string): string | number | boolean | null | undefined {
  const constant = CONSTANTS.get(written);
  if (constant !== undefined) return constant;
  if (NOT_FINITE.test(written)) return undefined;
  if (!/^[-+.0-9]/.test(written)) return written;
  const plain = written.startsWith(".") ? written : written.replaceAll("_", "");
  const integer = INTEGER.exec(plain);
  if (integer === null && !FLOAT.test(plain)) return written;
  if (written.length > MAX_NUMBER) return undefined;
  if (integer !== null) {
    const [, sign, prefixed, octal, decimal] = integer;
    const size = BigInt(prefixed ?? (octal === undefined ? (decimal ?? "") : `0o${octal}`));
    return exact(`${sign === "-" && size > 0n ? "-" : ""}${size.toString()}`);
  }
  const value = Number(plain);
  if (Number.isFinite(value)) return exact(floatText(value));
  return plain.includes(".") ? undefined : written;
}

/** A float as JSON has it, so that it is one for the service too. */
function floatText(value: number): string {
  if (Object.is(value, -0)) return "-0.0";
  return Number.isInteger(value) && Math.abs(value) < 1e21 ? value.toFixed(1) : value.toString();
}

/** Whether Compose may read another value than Kubernetes: booleans such as `yes` and integers beyond 64 bits are. */
export function isOtherInCompose(written: string, value: unknown): boolean {
  if (typeof value === "boolean") return !/^(?:true|false)$/i.test(written);
  return typeof value === "string" && !isText(value) && /^.-?\d{19,}$/.test(value);
}
