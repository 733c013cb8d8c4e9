/** Reads long texts beside the page, so that typing never waits for it. */

import { MAX_YAML, readInput } from "./input";

addEventListener("message", (event: MessageEvent<string>) => {
  postMessage(readInput(event.data, MAX_YAML));
});
