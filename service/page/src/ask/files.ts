/** Files that are dropped or chosen, those of folders too, as one text and the configurations of models among them. */

import { stringify } from "yaml";
import { isObject } from "../member";
import { readInput } from "./input";
import { readYaml } from "./yaml";

export interface SourceFile {
  readonly path: string;
  readonly text: string;
}
/** A `config.json` that is not yet known to be of a model. */
export interface LooseConfig {
  readonly path: string;
  readonly config: Record<string, unknown>;
}
export interface FilesRead {
  /** The text of all files but the configurations; empty if there is none. */
  readonly text: string;
  readonly configs: readonly LooseConfig[];
  /** What was left out, and why. */
  readonly notes: readonly string[];
}

const MAX_FILES = 2000;
const MAX_BYTES = 32 << 20;
/** The endings of files in a folder that may say how vLLM is started. */
const ENDINGS = /\.(?:ya?ml|json|sh|bash|service|container|kube|env|args|txt)$/i;
const PASSED_OVER = /^(?:\.|node_modules$|__pycache__$)/;

/** The files of a drop, those of folders by their paths in it, and what was left out. The drop must not be over yet. */
export async function filesOfDrop(transfer: DataTransfer): Promise<[SourceFile[], string[]]> {
  const entries = [...transfer.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  if (entries.length === 0) return filesOf([...transfer.files]);
  const found: Collected = { files: [], unreadable: [] };
  for (const entry of entries) await collect(entry, entries.length === 1 && entry.isDirectory, found);
  const [files, notes] = await read(found.files);
  return [files, [...found.unreadable.map(unreadable), ...notes]];
}

/** The files of a list, as a file input has them. */
export function filesOf(files: readonly File[]): Promise<[SourceFile[], string[]]> {
  return read(files.map((file) => [file.webkitRelativePath === "" ? file.name : file.webkitRelativePath, file]));
}

/** The files of a drop, and the paths of what cannot be read. */
interface Collected {
  readonly files: [string, File][];
  readonly unreadable: string[];
}

function unreadable(path: string): string {
  return `${path} cannot be read`;
}

async function collect(entry: FileSystemEntry, isInFolder: boolean, found: Collected): Promise<void> {
  if (found.files.length > MAX_FILES) return;
  const path = entry.fullPath.replace(/^\//, "");
  if (entry.isFile) {
    if (isInFolder && !ENDINGS.test(entry.name)) return;
    try {
      found.files.push([path, await fileOf(entry as FileSystemFileEntry)]);
    } catch {
      found.unreadable.push(path);
    }
    return;
  }
  if (!entry.isDirectory || PASSED_OVER.test(entry.name)) return;
  const children: FileSystemEntry[] = [];
  try {
    await collectChildren(entry as FileSystemDirectoryEntry, children);
  } catch {
    found.unreadable.push(path);
  }
  children.sort((one, other) => (one.name < other.name ? -1 : 1));
  for (const child of children) await collect(child, true, found);
}

function fileOf(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((done, failed) => {
    entry.file(done, failed);
  });
}

/** Adds the entries of a folder, as far as they can be read. */
async function collectChildren(folder: FileSystemDirectoryEntry, found: FileSystemEntry[]): Promise<void> {
  const reader = folder.createReader();
  for (;;) {
    // it gives at most a hundred at once
    const some = await new Promise<FileSystemEntry[]>((done, failed) => {
      reader.readEntries(done, failed);
    });
    if (some.length === 0) return;
    found.push(...some);
  }
}

async function read(files: readonly (readonly [string, File])[]): Promise<[SourceFile[], string[]]> {
  const found: SourceFile[] = [];
  const notes: string[] = [];
  let bytes = 0;
  if (files.length > MAX_FILES) notes.push(`only the first ${MAX_FILES.toString()} files were read`);
  for (const [path, file] of files.slice(0, MAX_FILES)) {
    bytes += file.size;
    if (bytes > MAX_BYTES) {
      notes.push(`only the first 32 MiB were read; ${path} and what follows were left out`);
      break;
    }
    try {
      const text = await file.text();
      if (text.includes("\0")) notes.push(`${path} is not a text`);
      else if (text.trim() !== "") found.push({ path, text });
    } catch {
      notes.push(unreadable(path));
    }
  }
  return [found, notes];
}

/** The configuration of a model in a file; `null` if it has something else. */
function configIn({ path, text }: SourceFile): Record<string, unknown> | null {
  if (!/\.json$/i.test(path)) return null;
  try {
    const value = JSON.parse(text) as unknown;
    if (!isObject(value) || "kind" in value || "apiVersion" in value) return null;
    return "model_type" in value || "architectures" in value || /(?:^|\/)config\.json$/i.test(path) ? value : null;
  } catch {
    return null;
  }
}

/** Files as one text, each a document that begins with its path, and the configurations among them. */
export function readFiles(files: readonly SourceFile[], before: readonly string[]): FilesRead {
  const configs: LooseConfig[] = [];
  const others: SourceFile[] = [];
  const notes = [...before];
  for (const file of files) {
    const config = configIn(file);
    if (config === null) others.push(file);
    else configs.push({ path: file.path, config });
  }
  const [only] = others;
  if (others.length < 2) return { text: only?.text ?? "", configs, notes };
  const documents = others.flatMap((file) => {
    const document = documentOf(file);
    if (document === null) notes.push(`${file.path} is a request, and not a part of a manifest; ask about it alone`);
    return document === null ? [] : [`# ${file.path.replace(/[^\x20-\x7e]+/g, "?")}\n${document}`];
  });
  return { text: documents.length === 0 ? "" : documents.reduce(withDocument), configs, notes };
}

/** A text with one more document. */
function withDocument(text: string, document: string): string {
  return `${text}${text.endsWith("\n") ? "" : "\n"}---\n${document}`;
}

/** The text of a file as a document of a manifest; `null` if it cannot be one. */
function documentOf({ text }: SourceFile): string | null {
  const input = readInput(text);
  if (input.kind === "document" && !input.isManifest) {
    const command = isObject(input.request.deployment) && typeof input.request.deployment.args === "string";
    return command ? written({ script: text }) : null;
  }
  const manifest = input.kind === "document" ? input.request.manifest : null;
  if (isObject(manifest) && (manifest.script === text || manifest.unit === text)) {
    return written(manifest);
  }
  return withoutHead(text.replace(/^\uFEFF/, "")).trimEnd();
}

/** A value as YAML, in the form of JSON where the service would read another value in the usual one. */
function written(value: object): string {
  const text = stringify(value, { lineWidth: 0 });
  try {
    if (JSON.stringify(readYaml(text)) === JSON.stringify([value])) return text;
  } catch {
    // it has characters that only an escape can give
  }
  const json = JSON.stringify(value);
  return json.replace(
    /[^\x20-\x7e\ud800-\udfff]/g,
    (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** The text after a `---` that only blank lines and comments stand before. */
function withoutHead(text: string): string {
  let start = 0;
  while (start < text.length) {
    const end = text.indexOf("\n", start);
    const line = text.slice(start, end < 0 ? text.length : end).trim();
    if (line === "---") return end < 0 ? "" : text.slice(end + 1);
    if (end < 0 || (line !== "" && !line.startsWith("#"))) return text;
    start = end + 1;
  }
  return text;
}

/**
 * The models of configurations by their paths: `NAME/config.json` or `NAME.json` in any folder, a snapshot in the hub's
 * cache, or a folder with the last part of the name that was given by itself. A file without a folder is of the only
 * model that lacks one. Of others, or of several for one model, the user says whose they are.
 */
export function matched(loose: readonly LooseConfig[], models: readonly string[]): Map<string, LooseConfig> {
  const found = new Map<string, LooseConfig>();
  for (const model of models) {
    const name = model.replace(/^\/+|\/+$/g, "");
    const last = name.slice(name.lastIndexOf("/") + 1);
    const whole = loose.filter(({ path }) => isOf(path, name));
    const part = loose.filter(({ path }) => path === `${last}/config.json` || path === `${last}.json`);
    const [one, ...more] = whole.length > 0 ? whole : part;
    if (one !== undefined && more.length === 0) found.set(model, one);
  }
  const [model, config] = [models[0], loose[0]];
  const isAlone = models.length === 1 && loose.length === 1;
  if (isAlone && model !== undefined && config?.path.includes("/") === false) found.set(model, config);
  return found;
}

/** Whether a file is the configuration of the model with a name, by its path. */
function isOf(path: string, name: string): boolean {
  const whole = `/${path}`;
  if (whole.endsWith(`/${name}/config.json`) || whole.endsWith(`/${name}.json`)) return true;
  const cached = `/models--${name.replaceAll("/", "--")}/snapshots/`;
  return whole.includes(cached) && /^[^/]+\/config\.json$/.test(whole.slice(whole.indexOf(cached) + cached.length));
}
