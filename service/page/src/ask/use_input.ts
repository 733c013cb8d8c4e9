/** What a text is, read at once if it is short, and beside the page if it is long. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { type Input, isReadAtOnce, readInput } from "./input";
import { readBeside } from "./reader";

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
    const control = new AbortController();
    const done = (input: Input): void => {
      if (!control.signal.aborted) setRead({ text, input });
    };
    readBeside({ text }, control.signal).then(done, () => {
      done({ kind: "text", text, why: "" });
    });
    return () => {
      control.abort();
    };
  }, [text]);
  return atOnce ?? (read?.text === text ? read.input : null);
}
