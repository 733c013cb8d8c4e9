/** Reads long texts and files beside the page, so that typing never waits for it. */

import { readFiles } from "./files";
import { MAX_YAML, readInput } from "./input";
import type { Task } from "./reader";

addEventListener("message", ({ data }: MessageEvent<Task>) => {
  postMessage("files" in data ? readFiles(data.files, data.notes) : readInput(data.text, MAX_YAML));
});
