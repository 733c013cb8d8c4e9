/** What a text is, read at once if it is short, and beside the page if it is long. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { type Input, isReadAtOnce, readInput } from "./input";

interface Read {
  readonly text: string;
  readonly input: Input;
}

/** The input of a text; `null` while it is read. */
export function useInput(text: string): Input | null {
  const atOnce = useMemo(() => (isReadAtOnce(text) ? readInput(text) : null), [text]);
  const [read, setRead] = useState<Read | null>(null);
  useEffect(() => {
    if (isReadAtOnce(text)) {
      setRead(null);
      return undefined;
    }
    const worker = new Worker(new URL("./input_worker.ts", import.meta.url), { type: "module" });
    const done = (input: Input): void => {
      setRead({ text, input });
      worker.terminate();
    };
    worker.addEventListener("message", (event: MessageEvent<Input>) => {
      done(event.data);
    });
    worker.addEventListener("error", () => {
      done({ kind: "text", text });
    });
    worker.postMessage(text);
    return () => {
      worker.terminate();
    };
  }, [text]);
  return atOnce ?? (read?.text === text ? read.input : null);
}
