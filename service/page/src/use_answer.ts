/** What the service answers to a value that changes. Owns when it is asked, and that an outdated answer is dropped. */

import { useEffect, useState } from "preact/hooks";
import type { Answer } from "./api";
import { useTokenChanges } from "./token";

/** The answer to a value, asked `wait` milliseconds after it changed, and whether it is awaited; the last one stays. Another
 * `attempt` or token asks again. */
export function useAnswer<T>(
  ask: ((signal: AbortSignal) => Promise<Answer<T>>) | null,
  wait: number,
  attempt = 0,
): [Answer<T> | null, boolean] {
  const [answer, setAnswer] = useState<Answer<T> | null>(null);
  const [isBusy, setBusy] = useState(false);
  const tokens = useTokenChanges();
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
  }, [ask, wait, attempt, tokens]);
  return [answer, isBusy];
}

/** A value that has been the same for `wait` milliseconds, or the one before; `isAtOnce` takes it over without waiting. */
export function useSettled<T>(value: T, wait: number, isAtOnce: boolean): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    if (Object.is(settled, value)) return undefined;
    const timer = setTimeout(
      () => {
        setSettled(value);
      },
      isAtOnce ? 0 : wait,
    );
    return () => {
      clearTimeout(timer);
    };
  }, [value, settled, wait, isAtOnce]);
  return settled;
}
