/**
 * YAML as the service reads it, which is `policy/parser/yamltree.py`. Owns what the page cannot read so: such a text is
 * left to the service.
 */

import { type Document, isAlias, isMap, isScalar, isSeq, parseAllDocuments, parseDocument, type YAMLMap } from "yaml";
import { isText } from "../exact_number";
import { isObject } from "../member";
import { isOtherInCompose, scalarValue } from "./scalars";

/** Every scalar is a text for the library: what it means is said here. */
const OPTIONS = { version: "1.1", schema: "failsafe", logLevel: "silent", uniqueKeys: false } as const;
const MAX_DEPTH = 64;
/** The most values of a text, in which an alias counts as what it refers to. */
const MAX_VALUES = 1 << 20;
/** Brackets that are open at once; of more the library makes a regular expression that ends the tab. */
const MAX_OPEN = 1000;
/** Characters that end lines in YAML 1.1 only, or that the service refuses. */
const OTHER_CHARACTERS =
  /[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\u{10000}-\u{10ffff}]|\\u[dD][89a-fA-F]/u;
/** A tab after what begins an item or a value, which the service refuses. */
const TAB = /^ *(?:[-?:] *)+\t/m;
const ANCHOR = /^[\w-]+$/;
const MERGE = "<<";

/** Only the service can read the text; the message says why, and is empty for what is no YAML. */
export class OnlyService extends Error {}

/** The documents of a text that are not empty. */
export function readYaml(text: string): unknown[] {
  const lines = text.replaceAll("\r\n", "\n");
  const other = OTHER_CHARACTERS.exec(lines);
  if (other !== null) throw new OnlyService(`it has ${shownCharacter(other[0])}`);
  if (TAB.test(lines)) throw new OnlyService("it has a tab where YAML expects a space");
  checkBrackets(lines);
  const documents = parseAllDocuments(lines, OPTIONS);
  if (!Array.isArray(documents)) return [];
  let values = 0;
  return documents.flatMap((document, n) => {
    if (n > 0 && document.directives?.docStart !== true) throw new OnlyService("a document begins without `---`");
    const reader = new DocumentReader(document, lines, values);
    const value = reader.document();
    values = reader.values;
    return value === null ? [] : [value];
  });
}

/** The structure of a text, whatever is wrong with it: where its values are. */
export function structureOf(text: string): Document {
  checkBrackets(text);
  return parseDocument(text, OPTIONS);
}

function shownCharacter(found: string): string {
  return found.length > 1 && found.startsWith("\\")
    ? `the escape \`${found}…\``
    : `the character U+${(found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

function checkBrackets(text: string): void {
  let open = 0;
  for (const [bracket] of text.matchAll(/[[\]{}]/g)) {
    open += bracket === "[" || bracket === "{" ? 1 : -1;
    if (open > MAX_OPEN) throw new OnlyService("it is nested too deep");
    if (open < 0) open = 0;
  }
}

interface Anchored {
  readonly value: unknown;
  /** How many values it has. */
  readonly size: number;
}

/** Reads the nodes of a document one after the other, as their anchors and aliases are meant. */
class DocumentReader {
  private readonly anchored = new Map<string, Anchored | null>();
  private hasServices = false;
  private otherInCompose: string | null = null;

  constructor(
    private readonly parsed: Document,
    private readonly text: string,
    public values: number,
  ) {}

  document(): unknown {
    if (this.parsed.errors.length > 0) throw new OnlyService("");
    const value = this.read(this.parsed.contents, 0);
    if (this.parsed.warnings.length > 0) throw new OnlyService("");
    if (this.hasServices && this.otherInCompose !== null)
      throw new OnlyService(`\`${this.otherInCompose}\` may be a text in a Compose file`);
    return value;
  }

  private read(node: unknown, depth: number): unknown {
    if (isAlias(node)) {
      const found = this.anchored.get(node.source);
      if (!found) throw new OnlyService(`the alias \`*${node.source}\` has no anchor before it`);
      this.count(found.size);
      return found.value;
    }
    this.count(1);
    if (node === null) return null;
    if (!isScalar(node) && !isSeq(node) && !isMap(node)) throw new OnlyService("");
    if (node.tag !== undefined) throw new OnlyService(`it has the tag \`${node.tag}\``);
    const { anchor } = node;
    if (anchor !== undefined) {
      if (!ANCHOR.test(anchor)) throw new OnlyService(`it has the anchor \`&${anchor}\``);
      this.anchored.set(anchor, null); // an alias in it has nothing to refer to
    }
    const before = this.values;
    let value: unknown;
    if (isScalar(node)) value = this.scalar(node.type ?? "PLAIN", node.source ?? "", node.range?.[1]);
    else if (depth === MAX_DEPTH) throw new OnlyService("it is nested too deep");
    else if (isSeq(node)) value = node.items.map((item) => this.read(item, depth + 1));
    else value = this.map(node, depth + 1);
    if (anchor !== undefined) this.anchored.set(anchor, { value, size: 1 + this.values - before });
    return value;
  }

  private count(values: number): void {
    this.values += values;
    if (this.values > MAX_VALUES) throw new OnlyService(`it has more than ${MAX_VALUES.toString()} values`);
  }

  private scalar(type: string, source: string, end: number | undefined): unknown {
    if (type.startsWith("BLOCK")) {
      const isCut = end === this.text.length && !this.text.endsWith("\n");
      return isCut ? source.replace(/\n$/, "") : source;
    }
    if (type !== "PLAIN") return source;
    if (/^[:?]/.test(source)) throw new OnlyService(`it has the text \`${source.slice(0, 20)}\` without quotes`);
    const value = scalarValue(source);
    if (value === undefined) throw new OnlyService(`it has the number \`${source.slice(0, 80)}\``);
    if (isOtherInCompose(source, value)) this.otherInCompose = source;
    return value;
  }

  /** A map; the maps under `<<` add the keys that it does not have. */
  private map(node: YAMLMap, depth: number): Record<string, unknown> {
    const found = new Map<string, unknown>();
    for (const { key, value } of node.items) {
      const name = this.read(key, depth);
      if (!isText(name)) throw new OnlyService("a key is not a text");
      if (found.has(name)) throw new OnlyService(`it has the key \`${name.slice(0, 80)}\` twice`);
      found.set(name, this.read(value, depth));
    }
    this.hasServices ||= found.has("services");
    const merged = found.get(MERGE);
    if (found.delete(MERGE)) {
      for (const source of Array.isArray(merged) ? (merged as unknown[]) : [merged]) {
        if (!isObject(source)) throw new OnlyService(`\`${MERGE}\` has something else than maps`);
        for (const [name, value] of Object.entries(source)) if (!found.has(name)) found.set(name, value);
      }
    }
    return Object.fromEntries(found);
  }
}
