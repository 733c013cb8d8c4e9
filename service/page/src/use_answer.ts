/** What the service answers to a value that changes. Owns when it is asked, and that an outdated answer is dropped. */

import { useEffect, useState } from "preact/hooks";
import type { Answer } from "./api";

/** The answer to a value, asked `wait` milliseconds after it changed, and whether it is awaited; the last one stays. Another
 * `attempt` asks again. */
export function useAnswer<T>(
  ask: ((signal: AbortSignal) => Promise<Answer<T>>) | null,
  wait: number,
  attempt = 0,
): [Answer<T> | null, boolean] {
  const [answer, setAnswer] = useState<Answer<T> | null>(null);
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    if (ask === null) {
      setAnswer(null);
      setBusy(false);
      return undefined;
    }
    const control = new AbortController();
    setBusy(true);
    const timer = setTimeout(() => {
      ask(control.signal).then(
        (found) => {
          if (control.signal.aborted) return;
          setAnswer(found);
          setBusy(false);
        },
        () => undefined,
      );
    }, wait);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [ask, wait, attempt]);
  return [answer, isBusy];
}
