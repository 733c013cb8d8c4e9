/** An edit as a patch that `git apply` takes. */

import { formatPatch, structuredPatch } from "diff";

export interface FileEdit {
  /** The path in the rules folder. */
  readonly path: string;
  /** The text as loaded; `null` for a new file. */
  readonly before: string | null;
  readonly after: string;
}

/** The patch of the files that changed, below a folder of the repository; empty if none did. */
export function patchOf(edits: readonly FileEdit[], folder: string): string {
  const prefix = folder.replace(/^[\s/]+|[\s/]+$/g, "");
  return edits
    .filter((edit) => edit.after !== (edit.before ?? ""))
    .map((edit) => filePatch(edit, prefix === "" ? edit.path : `${prefix}/${edit.path}`))
    .join("");
}

function filePatch({ before, after }: FileEdit, path: string): string {
  const isCreate = before === null;
  const names = [isCreate ? "/dev/null" : `a/${path}`, `b/${path}`] as const;
  return formatPatch({ ...structuredPatch(...names, before ?? "", after), isGit: true, isCreate });
}
