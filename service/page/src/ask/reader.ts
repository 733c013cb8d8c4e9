/** Reads a long text or files in a worker, so that typing never waits for it. */

import type { FilesRead, SourceFile } from "./files";
import type { Input } from "./input";

/** What a worker reads: a text, or files with what was left out before. */
export type Task = TextTask | FilesTask;
interface TextTask {
  readonly text: string;
}
interface FilesTask {
  readonly files: readonly SourceFile[];
  readonly notes: readonly string[];
}

/** What is read; it fails if there can be no worker, or a signal ends it. */
export function readBeside(task: TextTask, signal?: AbortSignal): Promise<Input>;
export function readBeside(task: FilesTask, signal?: AbortSignal): Promise<FilesRead>;
export function readBeside(task: Task, signal?: AbortSignal): Promise<Input | FilesRead> {
  const worker = new Worker(new URL("./input_worker.ts", import.meta.url), { type: "module" });
  const read = new Promise<Input | FilesRead>((done, failed) => {
    worker.addEventListener("message", ({ data }: MessageEvent<Input | FilesRead>) => {
      done(data);
    });
    worker.addEventListener("error", failed);
    signal?.addEventListener("abort", failed);
    worker.postMessage(task);
  });
  return read.finally(() => {
    worker.terminate();
  });
}
