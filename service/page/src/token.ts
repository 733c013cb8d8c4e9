/** Whether another token was given: views that failed without it ask again, and lose nothing. */

import { useEffect, useState } from "preact/hooks";
import { keepToken } from "./api";

const CHANGED = "runner-policy-token";

/** Keeps a token, and lets the views ask with it. */
export function giveToken(value: string): void {
  keepToken(value);
  dispatchEvent(new Event(CHANGED));
}

/** How often another token was given. */
export function useTokenChanges(): number {
  const [count, setCount] = useState(0);
  useEffect(() => {
    const changed = (): void => {
      setCount((before) => before + 1);
    };
    addEventListener(CHANGED, changed);
    return () => {
      removeEventListener(CHANGED, changed);
    };
  }, []);
  return count;
}
